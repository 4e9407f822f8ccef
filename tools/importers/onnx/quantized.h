// Files whose weights and results are quantized by pairs of operators (QDQ), as the model in floating point that they
// were made of: a pair changes values only, and the weights have the same shapes.
#pragma once

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// QuantizeLinear with the DequantizeLinear behind it is nothing, and DequantizeLinear of an initializer is the weight
/// itself. Operators that compute with integers stay, and are not known. Sets Graph::quantized where it changed any.
void drop_quantization(Graph& graph);

}  // namespace gpuplan::onnx_import
