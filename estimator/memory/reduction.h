// Scratch of ATen's CUDA kernels that depends on the launch configuration. Sizes in bytes, unrounded, in the
// order of allocation; empty when the kernel needs none. Rules from aten/src/ATen/native/cuda/Reduce.cuh,
// EmbeddingBackwardKernel.cu, Normalization.cuh; checked against recorded operators.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/dtype.h"
#include "estimator/run_config.h"
#include "estimator/shape.h"

namespace gpuplan {

/// A TensorIterator reduction (sum, mean, norm, amax ...) of a contiguous tensor over the dimensions
/// in `reduced` (bit i: dimension i). `input` is the tensor's dtype, `output` the result's; the
/// accumulator is accumulate_type(input). Returns {buffer, semaphores} or {}.
std::vector<std::int64_t> reduction_scratch(const Shape& shape, unsigned reduced, DType input, DType output, const Gpu& gpu);

/// One action of a scratch program: bytes > 0 allocates, bytes < 0 frees the allocation number -bytes - 1
/// (0-based, in order of allocation within the program).
using ScratchProgram = std::vector<std::int64_t>;

/// embedding_dense_backward after its zero-filled [vocabulary, features] result is allocated.
/// `indices` is the number of indices looked up.
ScratchProgram embedding_backward_scratch(std::int64_t indices, std::int64_t vocabulary, std::int64_t features, DType dtype,
                                          const Gpu& gpu, PyTorchVersion pytorch);

}  // namespace gpuplan
