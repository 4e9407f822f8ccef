// Opaque kernels: operations described only by their list of allocations.
#pragma once

#include <cstdint>

#include "estimator/operators/primitive.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan::aten {

/// Throws Error where a OpaqueKernel has no room for the program.
OpaqueKernel opaque_kernel(const ScratchProgram& program, std::int64_t elementwise_flops = 0);

/// The result, then so many bytes while the kernel runs.
OpaqueKernel result_with_temporary(std::int64_t bytes, std::int64_t elementwise_flops = 0);

/// index_put with accumulation (aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel): the indices wrapped
/// and made linear, a contiguous copy of values that are not (0 bytes: they are), and the sort with its two results and
/// the range it carries.
OpaqueKernel index_put(std::int64_t indices, std::int64_t values_bytes, std::int64_t sort_bytes,
                       std::int64_t elementwise_flops);

}  // namespace gpuplan::aten
