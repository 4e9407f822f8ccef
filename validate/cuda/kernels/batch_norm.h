// Batch normalisation over the channels of [N, C, ...], row-major or channels-last.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// What is absent has no data.
struct BatchNormTensors {
  KernelTensor x, weight, bias, running_mean, running_variance;
  KernelTensor mean, invstd;              // of this batch, of the type that sums are kept in
  KernelTensor y;                         // forward
  KernelTensor grad, dx, dweight, dbias;  // backward
};

/// "" or why these tensors cannot be normalised.
const char* batch_norm_refusal(const BatchNormTensors& t);

/// Training: normalises with the batch's own moments, keeps them, and moves the running ones by `momentum`.
void batch_norm_training(const LaunchContext& context, const BatchNormTensors& t, double momentum, double eps);
/// With the running moments.
void batch_norm_inference(const LaunchContext& context, const BatchNormTensors& t, double eps);
/// Of either; `training`: the moments were the batch's.
void batch_norm_backward(const LaunchContext& context, const BatchNormTensors& t, bool training, double eps);

}  // namespace gpuplan::cuda
