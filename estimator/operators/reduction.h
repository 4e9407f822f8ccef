// Scratch of ATen's CUDA kernels that depends on the launch configuration. Sizes in bytes, unrounded, in the
// order of allocation; empty when the kernel needs none. Rules from aten/src/ATen/native/cuda/Reduce.cuh,
// EmbeddingBackwardKernel.cu and the TensorIterator that feeds them; checked against recorded operators
// (tests/shadow/reductions.*.tsv, embedding_backward.*.tsv).
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/base/shape.h"
#include "estimator/device/gpu.h"
#include "estimator/operators/scratch_program.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Which kernel reduces: sum reads 16-bit inputs eight at a time, the others (mean, norm, ...) four.
enum class ReductionKind : std::uint8_t { sum, mean };

/// A TensorIterator reduction of a contiguous tensor over the dimensions in `reduced` (bit i: dimension i).
/// `input` is the tensor's dtype, `output` the result's; the accumulator is accumulate_type(input). Returns
/// {buffer, semaphores} or {}: both are allocated after the result and freed after the kernel. An input that
/// PyTorch splits because 32-bit offsets do not reach (2 GiB and more) returns its largest part; the whole
/// course is reduction_program's. Dimensions of a channels-last tensor are given in memory order.
std::vector<std::int64_t> reduction_scratch(const Shape& shape, unsigned reduced, DType input, DType output,
                                            const Gpu& gpu, ReductionKind kind = ReductionKind::sum);

/// The same reduction as everything that is allocated and freed between the result's allocation and the end.
ScratchProgram reduction_program(const Shape& shape, unsigned reduced, DType input, DType output, const Gpu& gpu,
                                 ReductionKind kind = ReductionKind::sum);

/// embedding_dense_backward with int64 indices, in PyTorch's order: the sort's buffers come before the [vocabulary,
/// features] result, the partial sums after it; all but the result is freed at the end. Nothing but the result up to
/// 3072 indices. Nothing depends on the values of the indices. `bag`: of _embedding_bag_dense_backward, which sorts
/// however few there are.
ScratchProgram embedding_backward_program(std::int64_t indices, std::int64_t vocabulary, std::int64_t features,
                                          DType dtype, const Gpu& gpu, PyTorchVersion pytorch, bool bag = false);

}  // namespace gpuplan
