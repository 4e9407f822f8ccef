// Convolutions by cuDNN.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>

#include "estimator/operators/primitive.h"
#include "validate/cuda/cudnn_tensors.h"
#include "validate/cuda/kernels/launch.h"
#include "validate/cuda/products.h"

namespace gpuplan::cuda {

/// The tensors of a convolution in any of its passes; sequences as images of one row.
struct ConvolutionTensors {
  KernelTensor image, filter, feature_map;
};

class Convolutions {
 public:
  Convolutions();

  /// cuDNN's, for what else it computes.
  cudnnHandle_t handle() const { return handle_.get(); }

  /// Computes the tensor that `what.pass` makes from the other two, by a deterministic algorithm that the workspace is
  /// enough for. Throws Error where there is none.
  void run(const LaunchContext& launch, const Convolution& what, const ConvolutionTensors& tensors, bool tf32,
           Workspace workspace);

 private:
  struct Plan {
    TensorDescriptor image, feature_map;
    CudnnHandle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> filter;
    CudnnHandle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
    int algorithm = 0;  // of the pass
    std::size_t workspace_bytes = 0;
  };
  using Key = std::array<std::int64_t, 32>;

  const Plan& plan(const Convolution& what, const ConvolutionTensors& tensors, bool tf32, std::int64_t workspace_bytes);
  void choose(Plan& plan, ConvolutionPass pass, std::int64_t workspace_bytes);

  CudnnHandle<cudnnHandle_t, cudnnDestroy> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace gpuplan::cuda
