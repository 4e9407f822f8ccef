// Pooling of images [N, C, H, W] of any strides.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

struct Window {
  std::int32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1,
               dilation_w = 1;
};

/// indices[...]: of the greatest element within its plane of x, row-major; the first of equals, or the last NaN.
void max_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const KernelTensor& indices,
              const Window& window);
/// Each element of dx adds up the windows it was the greatest of, in their order.
void max_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                       const KernelTensor& dx, const Window& window);
/// Means of the windows [floor(i H / P), ceil((i + 1) H / P)).
void adaptive_average_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y);
void adaptive_average_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx);

}  // namespace gpuplan::cuda
