// Images [N, C, H, W] of any strides at another size: averages of windows, nearest and bilinear resampling. Gradients
// are gathered by the element that gets them, in one order.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/cuda/kernels/pooling.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

struct Averaging {
  Window window;
  bool counts_padding = true;
  std::int32_t divisor = 0;  // 0: how many elements the window has
};

void average_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const Averaging& how);
void average_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx,
                           const Averaging& how);

/// Elements of the image from one element of the result to the next.
struct Resampling {
  double step_h = 1, step_w = 1;
  bool bilinear = false;
  bool corners = false;  // bilinear: corners lie on corners, else edges on edges
};

void resample(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const Resampling& how);
void resample_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx,
                       const Resampling& how);

}  // namespace gpuplan::cuda
