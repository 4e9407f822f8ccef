// A convolution as cuDNN's functions before the graph API describe one, and what it takes in memory.
#pragma once

#include <array>
#include <cstdint>

#include "validate/shadow/runtime/cudnn_abi.h"

namespace gpuplan::shadow::cudnn {

constexpr std::size_t kMaxSpatial = kMaxDimensions - 2;

/// A cudnnConvolutionDescriptor_t.
struct Convolution {
  int spatial = 0;  // dimensions that the filter moves along
  std::array<int, kMaxSpatial> padding{};
  std::array<int, kMaxSpatial> stride{};
  std::array<int, kMaxSpatial> dilation{};
  int mode = 0;  // cudnnConvolutionMode_t
  int type = 0;  // of the arithmetic
  int groups = 1;
  int math_type = 0;
};

enum class Pass { forward, backward_data, backward_filter };

/// Bytes that the first engine which the graph API's heuristics name for the same convolution asks for; 0 where they
/// name none or cannot be asked.
std::int64_t convolution_workspace(Pass pass, const Tensor& x, const Filter& w, const Convolution& convolution,
                                   const Tensor& y);

}  // namespace gpuplan::shadow::cudnn
