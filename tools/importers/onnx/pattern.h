// Finding operators that belong together.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/importers/onnx/node_view.h"

namespace gpuplan::onnx_import {

/// Looks at a graph around one node, and remembers the nodes that it went over.
class Pattern {
 public:
  explicit Pattern(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Node& node(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  /// One without a producer and users where it is left out.
  const Value& value(int v) const;
  NodeView view(int i) const { return {graph_, i}; }

  /// The node that computes the value, if that is this operator and computes at all; kNone otherwise. It is remembered.
  int from(int value, std::string_view op);
  /// The only node that reads the value, if it is this operator; kNone otherwise. It is remembered.
  int to(int value, std::string_view op);
  /// The operand beside `value` of a node of two; kNone where it is not one of them.
  int beside(int node, int value) const;
  /// Operands of a sum or product of which one is a number: the other one; kNone otherwise.
  int beside_number(int node, double number) const;
  std::optional<double> number(int value) const;
  bool is_number(int value, double number) const;
  int input(int node, std::size_t i) const;
  /// The first result; kNone where it is left out.
  int output(int node) const { return this->node(node).outputs.empty() ? kNone : this->node(node).outputs.front(); }

  void remember(int node) { nodes_.push_back(node); }
  void forget() { nodes_.clear(); }
  /// Puts `fused` in the place of the nodes that were remembered, where nothing else reads what is within them. It is
  /// called by the name of the last of them, in whose place it is, or of the first of them. False where something does.
  bool replace(Node fused, bool at_first = false);

 private:
  void release(Value& value, int v);

  Graph& graph_;
  std::vector<int> nodes_;
};

/// For replace(): an operator of these values.
Node fused_node(std::string op, std::vector<int> inputs, int output);

/// By subject; each looks at one node as a part of its pattern, and is true where it replaced it.
bool fuse_linear(Pattern& p, int node);
bool fuse_layer_norm(Pattern& p, int node);
bool fuse_rms_norm(Pattern& p, int node);
bool fuse_normalize(Pattern& p, int node);
bool fuse_group_norm(Pattern& p, int node);
bool fuse_batch_statistics(Pattern& p, int node);
bool fuse_recurrent(Pattern& p, int node);
bool fuse_gelu(Pattern& p, int node);
bool fuse_tanh_gelu(Pattern& p, int node);
bool fuse_gate(Pattern& p, int node);
bool fuse_hard_swish(Pattern& p, int node);
bool fuse_attention(Pattern& p, int node);
bool fuse_stochastic_depth(Pattern& p, int node);
bool fuse_not_equal(Pattern& p, int node);
bool fuse_strided_view(Pattern& p, int node);
bool fuse_rsqrt(Pattern& p, int node);
bool fuse_max(Pattern& p, int node);

}  // namespace gpuplan::onnx_import
