// Pooling of channels-last images, as many channels at once as 16 bytes hold. Each returns whether the tensors lie so,
// and does nothing where they do not.
#pragma once

#include "validate/cuda/kernels/pooling.h"

namespace gpuplan::cuda {

bool max_pool_packed(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y,
                     const KernelTensor& indices, const Window& window);
bool max_pool_backward_packed(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                              const KernelTensor& dx, const Window& window);
bool adaptive_average_pool_packed(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y);
bool adaptive_average_pool_backward_packed(const LaunchContext& context, const KernelTensor& grad,
                                           const KernelTensor& dx);

}  // namespace gpuplan::cuda
