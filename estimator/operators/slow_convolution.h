// Convolutions that PyTorch runs without cuDNN, by im2col and cuBLAS: bf16 before Ampere
// (aten/src/ATen/native/Convolution.cpp, use_cudnn: cuDNN has bf16 from compute capability 8.0 on).
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/operators/primitive.h"

namespace gpuplan {

/// Whether cuDNN convolves this type on this GPU.
constexpr bool cudnn_convolves(DType dtype, const Gpu& gpu) {
  return dtype != DType::bf16 || gpu.capability_major >= 8;
}
/// A convolution that it does not; depthwise ones have a kernel of PyTorch's own.
bool runs_without_cudnn(const Primitive& op, const Gpu& gpu);

/// Bytes of im2col's buffer of one sample (cuda/ConvolutionMM2d.cu, columns; NaiveConvolutionTranspose2d.cu has the
/// same of the convolution that it is the gradient of).
std::int64_t column_bytes(const Convolution& c);

/// Bytes that such a convolution takes besides its result at most: columns twice (of the input and of its gradient), a
/// contiguous copy of image and result and of their gradients, and cuBLAS's workspace. Assumed, not recorded: it is to
/// cover what is not planned, and the readings of tests/torch/random_runs.tsv lie below it. Both throw Error where the
/// sum does not fit in 64 bits.
std::int64_t most_slow_convolution_bytes(const Convolution& c, const Gpu& gpu);

}  // namespace gpuplan
