// One node of a graph as a rule reads it: its operands, and its attributes of the type that the rule expects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// Stays good while the graph's nodes move: it knows the node by its place. What is wrong with the node is an Error
/// that names the file and the node.
class NodeView {
 public:
  NodeView(const Graph& graph, int index) : graph_(graph), index_(static_cast<std::size_t>(index)) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return graph_.nodes[index_]; }
  std::size_t inputs() const { return node().inputs.size(); }
  std::size_t outputs() const { return node().outputs.size(); }
  bool has(std::size_t i) const { return i < node().inputs.size() && node().inputs[i] != kNone; }
  /// The value that an input is. Throws Error where it is left out.
  int value(std::size_t i) const;
  const Value& in(std::size_t i) const { return graph_.value(value(i)); }
  const Extents& shape(std::size_t i = 0) const { return in(i).shape; }

  // --- attributes. Each throws Error where the attribute is there and of another type.
  bool has_attribute(std::string_view name) const { return node().attributes.contains(name); }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string_view text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name) const;  // empty: not given
  std::vector<double> reals(std::string_view name) const;           // the same
  std::vector<std::string> texts(std::string_view name) const;
  const Value* tensor(std::string_view name) const;  // nullptr: not given

  [[noreturn]] void fail(const std::string& what) const;

 private:
  template <class T>
  const T* find(std::string_view name) const;

  const Graph& graph_;
  std::size_t index_;
};

}  // namespace gpuplan::onnx_import
