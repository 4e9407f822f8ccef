// F.softmax over one dimension (aten/src/ATen/native/SoftMax.cpp): saves its result.
#pragma once

#include <optional>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x.softmax(dim, dtype), a negative dim counted from the end: computed in `to` where that is given, in fp32 under
/// autocast. fp16 is read by the fp32 kernel itself; other types are converted first. Backward: one gradient, and grad
/// * result while it is computed.
TensorId softmax(LayerBuilder& b, TensorId x, int dim, std::optional<DType> to = {});

}  // namespace gpuplan::aten
