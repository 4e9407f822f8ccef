// softmax and log_softmax along one dimension.
#pragma once

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// `safe`: a row of nothing but -inf gives zeros.
void softmax(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, int dimension, bool log,
             bool safe = false);
/// softmax: y (dy - sum(y dy)); log_softmax: dy - exp(y) sum(dy).
void softmax_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& y,
                      const KernelTensor& dx, int dimension, bool log);

}  // namespace gpuplan::cuda
