// The three passes of a convolution: cuDNN chooses a kernel for each, and a GPU's measurements tell them apart.
#pragma once

#include <cstdint>

namespace gpuplan {

enum class ConvolutionPass : std::uint8_t { forward, backward_data, backward_filter };

}  // namespace gpuplan
