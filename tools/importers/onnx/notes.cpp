// What torch.onnx's newer exporter notes beside nodes and values (metadata_props).
#include <algorithm>

#include "tools/importers/onnx/graph.h"
#include "tools/importers/onnx/strip.h"

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kMaxOperands = 64;
constexpr std::size_t kMaxLayerInputs = 8;  // of those that read a weight

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "['', 'layer1', 'layer1.0', 'conv2d_3']": the last name is the call's own, the one before its module's.
std::string module_of_scopes(std::string_view scopes) {
  std::vector<std::string_view> names;
  for (std::size_t at = scopes.find('\''); at != std::string_view::npos; at = scopes.find('\'', at + 1)) {
    const std::size_t end = scopes.find('\'', at + 1);
    if (end == std::string_view::npos) break;
    names.push_back(scopes.substr(at + 1, end - at - 1));
    at = end;
  }
  return names.size() < 2 ? "" : std::string(names[names.size() - 2]);
}

// "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_fc_weight), ...".
std::string target_of_call(std::string_view call) {
  constexpr std::string_view kBefore = "target=torch.ops.";
  const std::size_t at = call.find(kBefore);
  const std::size_t end = at == std::string_view::npos ? at : call.find(']', at);
  return end == std::string_view::npos ? "" : std::string(call.substr(at + kBefore.size(), end - at - kBefore.size()));
}

std::vector<std::string> operands_of_call(std::string_view call) {
  std::vector<std::string> names;
  for (std::size_t at = call.find('%', 1); at != std::string_view::npos; at = call.find('%', at + 1)) {
    std::size_t end = at + 1;
    while (end < call.size() && is_name_char(call[end])) ++end;
    names.emplace_back(call.substr(at + 1, end - at - 1));
    if (names.size() == kMaxOperands) break;
  }
  return names;
}

// Operators that read a weight of a layer at this input.
bool reads_weight(const Node& node, std::size_t input) {
  if (!node.domain.empty() || input == 0) return false;
  for (const std::string_view op :
       {"Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
        "GroupNormalization", "RMSNormalization", "PRelu", "LSTM", "GRU", "RNN"})
    if (node.op == op) return true;
  return false;
}

// A parameter that was given other dimensions, such as a scale of every channel; tables have several dimensions.
bool is_long_vector(const Extents& shape) {
  constexpr std::int64_t kLong = 64;
  const auto several = [](const Extent& e) { return !(e == Extent(1)); };
  return std::count_if(shape.begin(), shape.end(), several) == 1 && product(shape).at[0] > kLong;
}

bool is_turned(const Extents& a, const Extents& b) { return a.size() == 2 && Extents{a[1], a[0]} == b; }

}  // namespace

std::string_view note_of(std::string_view notes, std::string_view key) {
  for (std::size_t at = 0; at < notes.size();) {
    const std::size_t end = std::min(notes.find(kNoteEnd, at), notes.size());
    const std::string_view note = notes.substr(at, end - at);
    if (note.size() > key.size() && note.starts_with(key) && note[key.size()] == '=')
      return note.substr(key.size() + 1);
    at = end + 1;
  }
  return "";
}

void read_notes(std::string_view notes, Node& node) {
  node.module = module_of_scopes(note_of(notes, kScopesNote));
  const std::string_view call = note_of(notes, kCallNote);
  node.call = target_of_call(call);
  node.operands = operands_of_call(call);
}

void drop_folded_tables(Graph& graph, const std::vector<int>& without_note) {
  for (const int v : without_note) {
    Value& value = graph.value(v);
    const auto is_read = [&](int user) {
      const Node& node = graph.nodes[static_cast<std::size_t>(user)];
      for (std::size_t i = 1; i < std::min(node.inputs.size(), kMaxLayerInputs); ++i)
        if (node.inputs[i] == v && reads_weight(node, i) && (node.op != "MatMul" || value.shape.size() == 2))
          return true;
      return false;
    };
    if (!is_long_vector(value.shape) && std::none_of(value.users.begin(), value.users.end(), is_read))
      value.kind = ValueKind::constant;
  }
}

void tie_turned_weights(Graph& graph) {
  std::map<std::string, int, std::less<>> turned;  // those whose first form the file does not have
  for (const Node& node : graph.nodes)
    for (const int v : node.inputs) {
      if (v == kNone) continue;
      Value& weight = graph.value(v);
      if (weight.kind != ValueKind::weight || weight.initializer != v || !is_generated(weight.name)) continue;
      for (const std::string& operand : node.operands) {
        if (!operand.starts_with("p_")) continue;
        const auto known = graph.parameters.find(operand);
        if (known != graph.parameters.end() && known->second != v &&
            is_turned(graph.value(known->second).shape, weight.shape)) {
          weight.initializer = known->second;
          weight.transposed = true;
          break;
        }
        const auto [first, fresh] = turned.try_emplace(operand, v);
        if (!fresh && first->second != v && graph.value(first->second).shape == weight.shape) {
          weight.initializer = first->second;
          break;
        }
      }
    }
}

}  // namespace gpuplan::onnx_import
