// Layer normalisation and its root-mean-square form, over rows that follow each other in memory.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// What is absent has no data. `mean` is absent in the root-mean-square form.
struct LayerNormTensors {
  KernelTensor x, weight, bias;           // x: [rows, columns]
  KernelTensor mean, rstd;                // [rows], of the type that sums are kept in
  KernelTensor y;                         // forward
  KernelTensor grad, dx, dweight, dbias;  // backward
  std::int64_t rows = 0, columns = 0;
};

void layer_norm(const LaunchContext& context, const LayerNormTensors& t, double eps, bool root_mean_square);
void layer_norm_backward(const LaunchContext& context, const LayerNormTensors& t, bool root_mean_square);

}  // namespace gpuplan::cuda
