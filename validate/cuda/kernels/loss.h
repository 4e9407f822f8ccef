// Negative log likelihood of [N, C] or [N, C, ...] against targets [N] or [N, ...], averaged over those not ignored.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

void nll_loss(const LaunchContext& context, const KernelTensor& log_p, const KernelTensor& target,
              const KernelTensor& loss, const KernelTensor& total_weight, std::int64_t ignored);
void nll_loss_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& target,
                       const KernelTensor& total_weight, const KernelTensor& dx, std::int64_t ignored);

}  // namespace gpuplan::cuda
