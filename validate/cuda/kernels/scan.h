#pragma once

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// y[..., i, ...] = x[..., 0, ...] + ... + x[..., i, ...] along one dimension; integers in 64 bits.
void cumsum(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, int dimension);

}  // namespace gpuplan::cuda
