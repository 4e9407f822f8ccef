// Convolutions as torch's functions run them: which kernel, in which memory format, and what is copied into it first
// (aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct ConvolutionOperands {
  TensorId input = kNone;
  TensorId weight = kNone;
  TensorId bias = kNone;  // or kNone
};

/// Autocast's casts, in PyTorch's order: bias, weight, input. The operands themselves outside of it.
ConvolutionOperands cached_cast(LayerBuilder& b, ConvolutionOperands operands);

/// The convolution of `geometry`, all sizes given: pass forward, or backward_data for a transposed one. Its type, its
/// layout and which kernel runs it are found here. The result has the shape `out`; the bias is added in place.
TensorId convolution(LayerBuilder& b, const Convolution& geometry, const ConvolutionOperands& operands,
                     const Shape& out);

}  // namespace gpuplan::aten
