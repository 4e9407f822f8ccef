// The argument `dtype` of layers, read as torch writes it: float32, int64, bool, ...
#pragma once

#include <optional>

#include "estimator/graph/layer.h"

namespace gpuplan {

/// The type that is named; nullopt where it is None. Throws Error at the argument when there is no such type.
std::optional<DType> named_dtype(const LayerBuilder& b);
/// The same where a type is needed: Throws Error for None, too.
DType required_dtype(const LayerBuilder& b);
/// The type of a tensor that is made with the model's: --precision where a floating type is named, since
/// model.to(dtype) converts those and no others. Throws Error as required_dtype() does.
DType converted_dtype(const LayerBuilder& b);

}  // namespace gpuplan
