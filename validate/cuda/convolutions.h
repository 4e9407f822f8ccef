// Convolutions by cuDNN.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

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

  /// Computes the tensor that `what.pass` makes from the other two, by the fastest deterministic algorithm that the
  /// workspace is enough for; by another where cuDNN runs none of those. Throws Error where it runs none at all.
  void run(const LaunchContext& launch, const Convolution& what, const ConvolutionTensors& tensors, bool tf32,
           Workspace workspace);

 private:
  struct Algorithm {
    int number = 0;  // of the pass
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  };
  struct Plan {
    TensorDescriptor image, feature_map;
    CudnnHandle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> filter;
    CudnnHandle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
    std::vector<Algorithm> algorithms;  // the best first
    std::size_t chosen = 0;             // those before it were refused
  };
  using Key = std::array<std::int64_t, 32>;

  Plan& plan(const Convolution& what, const ConvolutionTensors& tensors, bool tf32, std::int64_t workspace_bytes);
  void rank(Plan& plan, ConvolutionPass pass, bool exact, std::int64_t workspace_bytes);
  cudnnStatus_t compute(const Plan& plan, Algorithm algorithm, ConvolutionPass pass, const ConvolutionTensors& tensors,
                        Workspace workspace);

  CudnnHandle<cudnnHandle_t, cudnnDestroy> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace gpuplan::cuda
