// How a layer writes down the backward of what it ran.
#include <algorithm>

#include "estimator/graph/layer.h"
#include "estimator/integers.h"

namespace gpuplan {
namespace {

template <class T>
std::int32_t size_of_vector(const std::vector<T>& v) {
  return static_cast<std::int32_t>(v.size());
}

}  // namespace

bool NodeBuilder::needs(TensorId input) const {
  return graph_ != nullptr && input != kNone && graph_->tensor(input).requires_grad;
}

Operand NodeBuilder::add_local(const Local& value) {
  AutogradNode& n = graph_->nodes[static_cast<std::size_t>(node_)];
  graph_->locals.push_back(value);
  n.locals.end = size_of_vector(graph_->locals);
  return local(n.locals.end - n.locals.begin - 1);
}

Op& NodeBuilder::append(std::string_view name, const Primitive& what, std::span<const Operand> reads) {
  AutogradNode& n = graph_->nodes[static_cast<std::size_t>(node_)];
  Op op{name, what, n.layer, graph_->append_operands(reads), {}};
  op.writes = {op.reads.end, op.reads.end};
  for (const Operand r : reads)
    if (r >= 0) save(r);
  graph_->backward_ops.push_back(op);
  n.ops.end = size_of_vector(graph_->backward_ops);
  return graph_->backward_ops.back();
}

Operand NodeBuilder::run(std::string_view name, const Primitive& what, std::span<const Operand> reads,
                         const Shape& shape, DType dtype) {
  Op& op = append(name, what, reads);
  const Operand result = add_local({checked_mul(shape.elements(), size_of(dtype)), kNone, true, false});
  graph_->operands.push_back(result);
  op.writes.end = size_of_vector(graph_->operands);
  return result;
}

Operand NodeBuilder::run(std::string_view name, const Primitive& what, std::initializer_list<Operand> reads,
                         const Shape& shape, DType dtype) {
  return run(name, what, std::span<const Operand>(reads.begin(), reads.size()), shape, dtype);
}

std::vector<Operand> NodeBuilder::run_many(std::string_view name, const Primitive& what,
                                           std::initializer_list<Operand> reads, std::span<const OutputSpec> outputs) {
  Op& op = append(name, what, {reads.begin(), reads.size()});
  std::vector<Operand> results;
  results.reserve(outputs.size());
  for (const OutputSpec& o : outputs) {
    results.push_back(add_local({checked_mul(o.shape.elements(), size_of(o.dtype)), kNone, true, false}));
    graph_->operands.push_back(results.back());
  }
  op.writes.end = size_of_vector(graph_->operands);
  return results;
}

void NodeBuilder::run_in_place(std::string_view name, const Primitive& what, std::initializer_list<Operand> reads) {
  append(name, what, {reads.begin(), reads.size()});
}

Operand NodeBuilder::view(Operand value, bool dense) {
  const Local& of =
      graph_->locals[static_cast<std::size_t>(graph_->nodes[static_cast<std::size_t>(node_)].locals.begin + ~value)];
  return add_local({of.bytes, ~value, dense && of.dense, true});
}

void NodeBuilder::give(TensorId input, Operand value) {
  graph_->edges.push_back({input, ~value});
  graph_->nodes[static_cast<std::size_t>(node_)].edges.end = size_of_vector(graph_->edges);
}

void NodeBuilder::save(TensorId t) {
  graph_->saved.push_back(t);
  graph_->nodes[static_cast<std::size_t>(node_)].saved.end = size_of_vector(graph_->saved);
}

NodeBuilder LayerBuilder::node(std::string_view name, std::span<const TensorId> outputs,
                               std::span<const TensorId> inputs) {
  NodeBuilder builder;
  const bool wanted = std::ranges::any_of(inputs, [&](TensorId t) { return t != kNone && requires_grad(t); });
  if (!wanted) return builder;
  AutogradNode n;
  n.name = name;
  n.layer = call_.layer;
  n.outputs = graph_.append_operands(outputs);
  n.saved = {size_of_vector(graph_.saved), size_of_vector(graph_.saved)};
  n.ops = {size_of_vector(graph_.backward_ops), size_of_vector(graph_.backward_ops)};
  n.locals = {size_of_vector(graph_.locals), size_of_vector(graph_.locals)};
  n.edges = {size_of_vector(graph_.edges), size_of_vector(graph_.edges)};
  const NodeId id = size_of_vector(graph_.nodes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = graph_.tensor(outputs[i]);
    t.requires_grad = true;
    t.producer = id;
    t.output_index = static_cast<std::int32_t>(i);
    graph_.locals.push_back({checked_mul(t.shape.elements(), size_of(t.dtype)), kNone, true, false});
  }
  n.locals.end = size_of_vector(graph_.locals);
  graph_.nodes.push_back(n);
  builder.graph_ = &graph_;
  builder.node_ = id;
  return builder;
}

NodeBuilder LayerBuilder::node(std::string_view name, TensorId output, std::initializer_list<TensorId> inputs) {
  return node(name, std::span<const TensorId>(&output, 1), std::span<const TensorId>(inputs.begin(), inputs.size()));
}

}  // namespace gpuplan
