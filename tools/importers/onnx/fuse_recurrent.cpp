// Recurrent layers.
#include "tools/importers/onnx/pattern.h"

namespace gpuplan::onnx_import {
namespace {

constexpr int kMaxGathered = 256;  // slices of a layer's weights: a handful for each direction

// Goes over the nodes that make the value of initializers, by slices that are joined. False where something else does,
// or where there are more of them than `left`.
bool gathers(Pattern& p, int value, int& left) {
  if (value == kNone || --left < 0) return false;
  if (p.value(value).producer == kNone) return p.value(value).initializer != kNone;
  for (const char* op : {"Concat", "Slice", "Unsqueeze"}) {
    const int node = p.from(value, op);
    if (node == kNone) continue;
    const std::size_t joined = std::string_view(op) == "Concat" ? p.node(node).inputs.size() : 1;
    for (std::size_t i = 0; i < joined; ++i)
      if (!gathers(p, p.input(node, i), left)) return false;
    return true;
  }
  return false;
}

}  // namespace

// PyTorch has the gates of an LSTM as input, forget, cell, output and ONNX as input, output, forget, cell: torch.onnx's
// newer exporter slices weights that it does not fold and joins them anew. They are the layer's weights as they were.
bool fuse_recurrent(Pattern& p, int node) {
  const std::string op = p.node(node).op;
  if (op != "LSTM" && op != "GRU" && op != "RNN") return false;
  std::vector<int> gathered;
  int left = kMaxGathered;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    const int weight = p.input(node, i);
    if (weight == kNone || p.value(weight).producer == kNone) continue;
    if (!gathers(p, weight, left)) return false;
    gathered.push_back(weight);
  }
  p.remember(node);
  if (gathered.empty() || !p.replace(Node(p.node(node)))) return false;
  for (const int v : gathered) {
    Value& weight = p.graph().value(v);
    weight.producer = kNone;
    weight.initializer = v;
    weight.kind = ValueKind::weight;
  }
  return true;
}

}  // namespace gpuplan::onnx_import
