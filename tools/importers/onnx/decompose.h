// Operators that onnxruntime's optimizer writes (https://github.com/microsoft/onnxruntime, its page of contrib
// operators), as those of ONNX's own that they are made of.
#pragma once

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// Replaces the fused activations, norms, products, convolutions and attention. What none is made of stays as it is.
/// Throws Error for one that is used in a way that is not modelled, such as with keys and values of earlier tokens.
void decompose(Graph& graph);

}  // namespace gpuplan::onnx_import
