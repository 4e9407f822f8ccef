// A product for every group of rows, as torch._grouped_mm() and torch.nn.functional.grouped_mm() run it for experts.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x [rows, k] times the weight of each row's group, weights [groups, n, k] -> [rows, n]. `ends` [groups] of int32 says
/// where each group's rows end; no size depends on it. Saves x, weights and ends (tools/autograd/derivatives.yaml).
TensorId grouped_product(LayerBuilder& b, TensorId x, TensorId weights, TensorId ends);

}  // namespace gpuplan::aten
