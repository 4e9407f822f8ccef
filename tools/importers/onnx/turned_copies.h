// Weights that an exporter wrote down a second time, the other way around.
//
// torch.onnx's TorchScript exporter, which folds constants, computes the Transpose of nn.Linear's weight. Where that is
// an embedding's, too, as the head's of most language models is, the file has both: [V, H], which a Gather reads, and
// [H, V] by a name that was made up, which a MatMul reads. The file does not say that they were one parameter; their
// elements do.
#pragma once

#include <string>

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

constexpr std::int64_t kComparedWhole = 4096;  // elements: larger matrices are compared in as many, spread over them

/// Ties such a copy to the embedding whose elements it has, as far as they were compared. `model`: the path of the
/// file. Nothing is tied whose data are not there, or are mostly one value, as weights that were never drawn are; what
/// was found is noted in graph.turned.
void tie_turned_copies(Graph& graph, const std::string& model);

}  // namespace gpuplan::onnx_import
