// Convolutions that PyTorch runs without cuDNN, by im2col and cuBLAS: bf16 before Ampere
// (aten/src/ATen/native/Convolution.cpp, use_cudnn: cuDNN has bf16 from compute capability 8.0 on).
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/graph/primitive.h"

namespace gpuplan {

bool runs_without_cudnn(const Primitive& op, const Gpu& gpu);

/// Bytes of im2col's buffer of one sample (cuda/ConvolutionMM2d.cu, columns; NaiveConvolutionTranspose2d.cu has the
/// same of the convolution that it is the gradient of).
std::int64_t column_bytes(const Convolution& c);

/// What such a convolution takes besides its result at most: columns twice, a copy of each operand and of each
/// gradient, and cuBLAS's workspace.
std::int64_t most_slow_convolution_bytes(const Convolution& c, const Gpu& gpu);

}  // namespace gpuplan
