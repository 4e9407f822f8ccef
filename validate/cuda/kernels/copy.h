// Copies between tensors of one type and any strides.
#pragma once

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// to[i] = from[i], types converted where they differ; `from` is broadcast. Of other sizes with as many elements: in
/// row-major order, which one of the two lies in. Throws Error where there is no such order.
void copy(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to);

/// Reverses dimensions whose bit is set.
void flip(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to, unsigned dimensions);

/// Of the last two dimensions what is right of the diagonal becomes 0.
void tril(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to);

}  // namespace gpuplan::cuda
