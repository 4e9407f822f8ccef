// Losses of each element against a target, their mean or sum.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

enum class PointwiseLoss : std::uint8_t {
  squares,        // (x - t)^2
  smooth_l1,      // a square over 2 beta below beta, a line above
  huber,          // that times beta
  cross_entropy,  // (1 - t) x - log sigmoid(x)
};

struct LossArguments {
  PointwiseLoss kind = PointwiseLoss::squares;
  double bend = 0;  // beta, where it becomes a line
  bool mean = true;
};

/// loss[0] = the sum of f(x, target), or their mean. x and target lie in memory in the same way, without gaps.
void pointwise_loss(const LaunchContext& context, const LossArguments& a, const KernelTensor& x,
                    const KernelTensor& target, const KernelTensor& loss);
/// dx = grad f'(x, target), over the count of a mean. dx lies as x does.
void pointwise_loss_backward(const LaunchContext& context, const LossArguments& a, const KernelTensor& grad,
                             const KernelTensor& x, const KernelTensor& target, const KernelTensor& dx);

}  // namespace gpuplan::cuda
