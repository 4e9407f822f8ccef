// Operators that are one operation of PyTorch's and several of ONNX's.
#pragma once

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// Replaces the nodes of known patterns by one node each, at the place of the last of them: Linear, LayerNormalization,
/// GroupNormalization, BatchStatisticsNorm, RootMeanSquareNorm, Gelu, NewGELU, SiLU, HardSwish,
/// ScaledDotProductAttention. What other nodes read stays computed.
void fuse(Graph& graph);

}  // namespace gpuplan::onnx_import
