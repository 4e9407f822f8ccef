// Weights that are a layer's own or that the model computes, as F.linear(x, weight, bias) has them.
#pragma once

#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// The layer's own parameter where it is `own`, else input `i` of this shape; kNone where there is no such input.
/// Throws Error where its shape is another one.
TensorId weight(LayerBuilder& b, bool own, std::string_view name, int i, const Shape& shape);

}  // namespace gpuplan::aten
