// Files whose weights and results are quantized by pairs of operators (QDQ), as the model in floating point that they
// were made of: a pair changes values only, and the weights have the same shapes.
#include "tools/importers/onnx/passes.h"

#include <algorithm>

namespace gpuplan::onnx_import {
namespace {

constexpr std::int64_t kFloatType = 1;  // TensorProto.DataType

// onnxruntime has both among its own operators, too, with more types.
bool is_op(const Node& node, std::string_view op) {
  return node.op == op && (node.domain.empty() || node.domain == "com.microsoft") && !node.inputs.empty() &&
         node.inputs.front() != kNone && node.outputs.size() == 1 && node.outputs.front() != kNone;
}
bool dequantizes(const Node& node) { return is_op(node, "DequantizeLinear"); }

bool is_read_by_pairs(const Graph& graph, const Node& quantize) {
  const Value& result = graph.value(quantize.outputs.front());
  return !result.is_output && std::all_of(result.users.begin(), result.users.end(), [&](int user) {
    return dequantizes(graph.nodes[static_cast<std::size_t>(user)]);
  });
}

// Scales and zeros, which one may be of thousands of nodes, keep them as users: nothing else reads them.
void become(Graph& graph, int index, const std::string& op, Attributes attributes = {}) {
  Node& node = graph.nodes[static_cast<std::size_t>(index)];
  node.op = op;
  node.domain.clear();
  node.inputs.resize(1);
  node.attributes = std::move(attributes);
}

// The weight by its own name, in the place of what is made of it.
void restore_weight(Graph& graph, int index) {
  const int from = graph.nodes[static_cast<std::size_t>(index)].inputs.front();
  const int to = graph.nodes[static_cast<std::size_t>(index)].outputs.front();
  Value& weight = graph.value(from);
  weight.type = DType::fp32;
  weight.content.reset();
  constexpr std::string_view kAdded = "_quantized";  // by onnxruntime
  if (weight.name.ends_with(kAdded)) weight.name.resize(weight.name.size() - kAdded.size());
  if (!weight.shape.empty()) weight.kind = ValueKind::weight;
  for (const int user : graph.value(to).users) {
    for (int& input : graph.nodes[static_cast<std::size_t>(user)].inputs)
      if (input == to) input = from;
    graph.value(from).users.push_back(user);
  }
  graph.value(to).users.clear();
}

}  // namespace

void drop_quantization(Graph& graph) {
  std::vector<char> quantizes(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    const Node& node = graph.nodes[i];
    const bool is_pair = is_op(node, "QuantizeLinear") && is_read_by_pairs(graph, node);
    if (!is_pair && !dequantizes(node)) continue;
    graph.quantized = true;
    const int from = node.inputs.front(), to = node.outputs.front();
    if (is_pair) {
      quantizes[static_cast<std::size_t>(to)] = 1;
      become(graph, index, "Identity");
    } else if (graph.value(from).initializer == from) {
      restore_weight(graph, index);
      become(graph, index, "Identity");
    } else if (quantizes[static_cast<std::size_t>(from)] != 0) {
      become(graph, index, "Identity");
    } else {
      become(graph, index, "Cast", {{"to", kFloatType}});
    }
  }
}

}  // namespace gpuplan::onnx_import
