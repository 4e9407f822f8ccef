// Batch normalisation by cuDNN, as PyTorch calls it (aten/src/ATen/native/cudnn/BatchNorm.cpp).
#pragma once

#include <cudnn.h>

#include <cstdint>

#include "validate/cuda/kernels/batch_norm.h"
#include "validate/cuda/products.h"

namespace gpuplan::cuda {

enum class BatchNormPass : std::uint8_t { training, inference, backward };

/// Bytes that cuDNN wants beside the tensors: while the pass runs, and from training to backward.
struct BatchNormSpace {
  std::int64_t workspace = 0, reserve = 0;
};

/// Whether cuDNN takes these tensors: images or sequences whose parameters and statistics are all there and of the type
/// that it keeps them in, and gradients that lie as the image does.
bool cudnn_takes(BatchNormPass pass, const BatchNormTensors& t);

/// By cuDNN's own functions; of tensors that it takes. Throws Error.
BatchNormSpace cudnn_batch_norm_space(cudnnHandle_t handle, BatchNormPass pass, const BatchNormTensors& t);

struct BatchNormNumbers {
  double momentum = 0, eps = 0;
};

/// With no reserve. Throws Error.
void cudnn_batch_norm(cudnnHandle_t handle, const LaunchContext& launch, BatchNormPass pass, const BatchNormTensors& t,
                      const BatchNormNumbers& numbers, Workspace workspace);

}  // namespace gpuplan::cuda
