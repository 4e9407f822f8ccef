// The shape and type of every value, and the content of those that shapes follow from.
#pragma once

#include <string>

#include "tools/importers/onnx/node_view.h"

namespace gpuplan::onnx_import {

/// Fills in every value's kind, type, shape and, where it is a small constant, content. Throws Error that names the
/// node; one that lists all operators which are not known.
void infer(Graph& graph);

/// True where infer() knows the operator.
bool is_known(const Node& node);

/// What an operator's rule sees: one node and its values.
class Inference : public NodeView {
 public:
  Inference(Graph& graph, int index) : NodeView(graph, index), graph_(graph) {}

  /// The integers that an input holds. Throws Error where they are not known from the graph alone.
  const Extents& content(std::size_t i, std::string_view what) const;
  /// The same of integers that do not depend on the batch: an attribute before some opset, an input since.
  std::vector<std::int64_t> numbers(std::string_view attribute, std::size_t input) const;
  /// `axis` within 0 .. rank. Throws Error.
  std::size_t axis(std::int64_t axis, std::size_t rank) const;

  /// Sets output i; nothing where it is left out.
  void out(std::size_t i, Extents shape, DType type, std::optional<Content> content = std::nullopt);
  void out(Extents shape) { out(0, std::move(shape), in(0).type); }
  void view() { is_view_ = true; }
  bool is_view() const { return is_view_; }
  /// True of an output that the rule has set: a node may have more of them than its operator.
  bool is_set(std::size_t i) const { return i < set_.size() && set_[i] != 0; }

  /// Sizes of the same dimension of two tensors that must agree, or of which one may be 1.
  Extent same(const Extent& a, const Extent& b) const;
  Extents broadcast(const Extents& a, const Extents& b) const;
  /// `sizes` written for the batch that the file was exported with, of a tensor of shape `of`: as a function of the
  /// batch.
  Extents for_any_batch(const Extents& of, Extents sizes) const;

 private:
  Graph& graph_;
  bool is_view_ = false;
  std::vector<char> set_;  // by the output
};

using InferRule = void (*)(Inference&);
struct NamedRule {
  std::string_view op;
  InferRule rule;
};

/// Rules by subject; infer.cpp looks in all of them.
std::vector<NamedRule> pointwise_rules();
std::vector<NamedRule> layer_rules();
std::vector<NamedRule> constant_rules();
std::vector<NamedRule> view_rules();
std::vector<NamedRule> movement_rules();
std::vector<NamedRule> reduction_rules();
std::vector<NamedRule> einsum_rules();

/// The dimensions of a Transpose in their new order.
std::vector<std::int64_t> transposed_order(const NodeView& n);

}  // namespace gpuplan::onnx_import
