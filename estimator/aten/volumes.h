// What layers over volumes [N, C, D, H, W] are told: three numbers, or one for all dimensions.
#pragma once

#include <array>
#include <string_view>

#include "estimator/aten/windows.h"
#include "estimator/graph/layer.h"

namespace gpuplan::aten {

using Triple = std::array<std::int64_t, 3>;

/// The argument, each of its numbers at least `least`.
Triple triple(const LayerBuilder& b, std::string_view name, std::int64_t least);
/// The shape of the layer's input. Throws Error where that is no contiguous volume.
Shape volume_of(const LayerBuilder& b);

}  // namespace gpuplan::aten
