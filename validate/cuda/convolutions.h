// Convolutions by cuDNN.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
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

/// How a convolution may compute.
struct ConvolutionRules {
  bool tf32 = false;
  bool repeatable = false;  // by a deterministic algorithm, with memory of its own where the plan's is too small
};

class Convolutions {
 public:
  Convolutions();

  /// cuDNN's, for what else it computes.
  cudnnHandle_t handle() const { return handle_.get(); }

  /// Computes the tensor that `what.pass` makes from the other two, by the fastest deterministic algorithm that the
  /// workspace is enough for; by another where cuDNN runs none of those. Throws Error where it runs none at all.
  void run(const LaunchContext& launch, const Convolution& what, const ConvolutionTensors& tensors,
           ConvolutionRules rules, Workspace workspace);

  /// Gives back what repeatable ones took.
  void release_own() { own_.reset(), own_bytes_ = 0; }

 private:
  struct Algorithm {
    int number = 0;                        // of the pass
    std::int64_t deterministic_bytes = 0;  // its workspace, where it is deterministic
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  };
  struct Plan {
    TensorDescriptor image, feature_map;
    CudnnHandle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> filter;
    CudnnHandle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
    std::vector<Algorithm> algorithms;  // the best first
    std::size_t chosen = 0;             // those before it were refused
    std::int64_t own_bytes = 0;         // what a repeatable one's deterministic algorithms need at most
  };
  using Key = std::array<std::int64_t, 32>;

  struct CudaFree {
    void operator()(void* memory) const;
  };

  Plan& plan(const Convolution& what, const ConvolutionTensors& tensors, ConvolutionRules rules,
             std::int64_t workspace_bytes);
  void rank(Plan& plan, ConvolutionPass pass, bool exact, std::int64_t workspace_bytes);
  Workspace own(std::int64_t bytes);
  cudnnStatus_t compute(const Plan& plan, Algorithm algorithm, ConvolutionPass pass, const ConvolutionTensors& tensors,
                        Workspace workspace);

  CudnnHandle<cudnnHandle_t, cudnnDestroy> handle_;
  std::map<Key, Plan> plans_;
  std::unique_ptr<void, CudaFree> own_;
  std::int64_t own_bytes_ = 0;
};

}  // namespace gpuplan::cuda
