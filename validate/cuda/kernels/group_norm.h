// Normalisation over groups of channels of [n, channels, area], in either layout of the channels.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// What is absent has no data. Elements of a tensor fill a run of memory: [n, channels, area], or [n, area, channels]
/// where channels_last. mean and rstd are [n, groups].
struct GroupNormTensors {
  KernelTensor x, weight, bias, mean, rstd;
  KernelTensor y;                         // forward
  KernelTensor grad, dx, dweight, dbias;  // backward
  std::int64_t n = 0, channels = 0, area = 0, groups = 1;
  bool channels_last = false;
};

void group_norm(const LaunchContext& context, const GroupNormTensors& t, double eps);
/// `sums`: room for 2 n channels sums, of the type that sums are kept in.
void group_norm_backward(const LaunchContext& context, const GroupNormTensors& t, void* sums);

}  // namespace gpuplan::cuda
