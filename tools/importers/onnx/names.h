// Names of layers: PyTorch's module paths, as far as an ONNX file keeps them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// The module that a weight belongs to: "layer1.0.conv1" of "layer1.0.conv1.weight"; empty for a name made up.
std::string module_of_weight(std::string_view weight);

/// The module that a node was exported from, by the exporter's notes or by torch.onnx's node names: "layer1.0" of
/// "/layer1/layer1.0/Relu"; empty where it has none.
std::string module_of_node(const Node& node);

/// The modules that nodes come from.
class Modules {
 public:
  explicit Modules(const Graph& graph);

  /// What an entry for the node is best called: "layer1.0.add", the module alone where it is its only node, or the name
  /// of its result where that was not made up.
  std::string name_of(const Graph& graph, const Node& node) const;

 private:
  std::unordered_map<std::string, int> nodes_;  // how many of each module
  std::unordered_set<std::string> with_children_;
};

/// Letters, digits, underscores and dots, as a spec's names are.
std::string as_module_name(std::string_view text);

/// True of digits, dots and underscores alone, which YAML takes for a number.
bool is_number(std::string_view text);
/// True of words of the format that a name would be taken for in the place of a key.
bool is_entry_word(std::string_view name);

/// Names that are in use, and new ones.
class Names {
 public:
  /// `wish`, or `wish_1`, ...: a name that no entry has.
  std::string take(std::string_view wish);
  /// "NAME.0" to "NAME.N" mean the results of an entry of several.
  void reserve_parts(const std::string& name, std::size_t parts);

 private:
  std::unordered_set<std::string> taken_ = {"input", "inputs"};
  std::unordered_map<std::string, int> last_of_;  // by the wish: the last number that was tried
};

}  // namespace gpuplan::onnx_import
