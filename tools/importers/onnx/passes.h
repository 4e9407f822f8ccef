// What import_onnx() does to a graph between reading and writing it, in this order, infer() before fuse().
#pragma once

#include <string>

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// QuantizeLinear with the DequantizeLinear behind it is nothing, and DequantizeLinear of an initializer is the weight
/// itself. Operators that compute with integers stay, and are not known. Sets Graph::quantized where it changed any.
void drop_quantization(Graph& graph);

/// Replaces the fused activations, norms, products, convolutions and attention. What none is made of stays as it is.
/// Throws Error for one that is used in a way that is not modelled, such as with keys and values of earlier tokens.
void decompose(Graph& graph);

/// Ties such a copy to the embedding whose elements it has, as far as they were compared. `model`: the path of the
/// file. Nothing is tied whose data are not there, or are mostly one value, as weights that were never drawn are; what
/// was found is noted in graph.turned.
void tie_turned_copies(Graph& graph, const std::string& model);

/// Replaces the nodes of known patterns by one node each, at the place of the last of them: Linear, LayerNormalization,
/// GroupNormalization, BatchStatisticsNorm, RootMeanSquareNorm, Gelu, NewGELU, SiLU, HardSwish,
/// ScaledDotProductAttention. What other nodes read stays computed.
void fuse(Graph& graph);

}  // namespace gpuplan::onnx_import
