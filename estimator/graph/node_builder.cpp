// How a layer writes down the backward of what it ran.
#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/graph/layer.h"

namespace gpuplan {
bool NodeBuilder::needs(TensorId input) const {
  return graph_ != nullptr && input != kNone && graph_->tensor(input).requires_grad;
}

Operand NodeBuilder::add_local(const BackwardValue& value) {
  AutogradNode& n = graph_->nodes[index(node_)];
  graph_->locals.push_back(value);
  n.locals.end = size_of_vector(graph_->locals);
  return local(n.locals.end - n.locals.begin - 1);
}

BackwardValue& NodeBuilder::value_of(Operand value) const {
  return graph_->locals[index(graph_->nodes[index(node_)].locals.begin + ~value)];
}

const Shape& NodeBuilder::shape(Operand value) const { return value_of(value).shape; }
DType NodeBuilder::dtype(Operand value) const { return value_of(value).dtype; }

Op& NodeBuilder::append(Operator op, const Primitive& what, std::span<const Operand> reads) {
  AutogradNode& n = graph_->nodes[index(node_)];
  Op made{op, what, n.layer, graph_->append_operands(reads), {}};
  made.writes = {made.reads.end, made.reads.end};
  for (const Operand r : reads)
    if (r >= 0) save(r);
  graph_->backward_ops.push_back(made);
  n.ops.end = size_of_vector(graph_->backward_ops);
  return graph_->backward_ops.back();
}

// The result of the operation appended last.
Operand NodeBuilder::add_result(const OutputSpec& o) {
  Op& op = graph_->backward_ops.back();
  const Placing usual = std::holds_alternative<Elementwise>(op.what) ? Placing::pointwise : Placing::contiguous;
  BackwardValue value;
  value.shape = o.shape;
  value.dtype = o.dtype;
  value.placing = o.placing.value_or(usual);
  if (o.placing == Placing::given) value.strides = graph_->add_strides(o.strides);
  value.storage_bytes = o.bytes;
  (void)checked_mul(o.shape.elements(), size_of(o.dtype));
  const Operand result = add_local(value);
  graph_->operands.push_back(result);
  op.writes.end = size_of_vector(graph_->operands);
  return result;
}

std::vector<Operand> NodeBuilder::run_many(Operator op, const Primitive& what, Operands reads,
                                           std::span<const OutputSpec> outputs) {
  append(op, what, reads);
  std::vector<Operand> results;
  results.reserve(outputs.size());
  for (const OutputSpec& o : outputs) results.push_back(add_result(o));
  return results;
}

Operand NodeBuilder::run(Operator op, const Primitive& what, Operands reads, const OutputSpec& output) {
  append(op, what, reads);
  return add_result(output);
}

void NodeBuilder::run_in_place(Operator op, const Primitive& what, Operands reads) { append(op, what, reads); }

void NodeBuilder::extra(Operands operands) { graph_->backward_ops.back().extra = graph_->append_operands(operands); }

void NodeBuilder::attributes(std::span<const AttributeValue> values) {
  graph_->append_attributes(graph_->backward_ops.back(), values);
}

// --- views ------------------------------------------------------------------------------------------------------

Operand NodeBuilder::add_view(ViewKind kind, Operand value, const Shape& shape) {
  if (may_copy(kind)) {
    Op& op = append(Operator::clone, Copy{shape.elements()}, {&value, 1});
    BackwardValue copy = value_of(value);
    copy.shape = shape;
    copy.view = kind;
    copy.alias_of = ~value;
    const Operand result = add_local(copy);
    graph_->operands.push_back(result);
    op.writes.end = size_of_vector(graph_->operands);
    return result;
  }
  BackwardValue of = value_of(value);
  of.shape = shape;
  of.view = kind;
  of.alias_of = ~value;
  of.start = 0;
  of.dim = 0;
  return add_local(of);
}

Operand NodeBuilder::view(Operand value) { return add_view(ViewKind::same, value, value_of(value).shape); }

Operand NodeBuilder::in_saved(TensorId over, TensorId like) {
  const Tensor& of = graph_->tensor(like);
  BackwardValue value{.shape = of.shape, .dtype = of.dtype};
  value.view = ViewKind::saved;
  value.alias_of = over;
  return add_local(value);
}

Operand NodeBuilder::permute(Operand value, std::span<const int> order) {
  Shape shape;
  Strides ordered;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shape.push_back(value_of(value).shape[order[i]]);
    ordered.set(static_cast<int>(i), order[i]);
  }
  const Operand result = add_view(ViewKind::permute, value, shape);
  value_of(result).strides = graph_->add_strides(ordered);
  return result;
}

Operand NodeBuilder::expand(Operand value, const Shape& shape) { return add_view(ViewKind::expand, value, shape); }
Operand NodeBuilder::narrow(Operand value, const Shape& shape, int dim, std::int64_t start) {
  const Operand result = add_view(ViewKind::narrow, value, shape);
  value_of(result).dim = dim;
  value_of(result).start = start;
  return result;
}
Operand NodeBuilder::piece(Operand value, const Shape& shape, std::int64_t start) {
  const Operand result = add_view(ViewKind::same, value, shape);
  value_of(result).start = start;
  return result;
}
Operand NodeBuilder::reshape(Operand value, const Shape& shape) {
  return shape == value_of(value).shape ? view(value) : add_view(ViewKind::reshape, value, shape);
}
Operand NodeBuilder::contiguous(Operand value, MemoryFormat format) {
  return add_view(format == MemoryFormat::contiguous ? ViewKind::contiguous : ViewKind::channels_last, value,
                  value_of(value).shape);
}

Operand NodeBuilder::without_gaps(Operand value) {
  return add_view(ViewKind::without_gaps, value, value_of(value).shape);
}

Operand NodeBuilder::to_format(Operand value, MemoryFormat format) {
  return add_view(format == MemoryFormat::contiguous ? ViewKind::to_contiguous : ViewKind::to_channels_last, value,
                  value_of(value).shape);
}

Operand NodeBuilder::cast(Operand value, DType to) {
  const BackwardValue of = value_of(value);
  if (of.dtype == to) return value;
  return run(Operator::to, Elementwise{of.shape.elements(), 0}, {value}, of.shape, to);
}

// --- results ----------------------------------------------------------------------------------------------------

void NodeBuilder::give(TensorId input, Operand value) {
  graph_->edges.push_back({input, ~value});
  graph_->nodes[index(node_)].edges.end = size_of_vector(graph_->edges);
}

void NodeBuilder::save(TensorId t) {
  graph_->saved.push_back(t);
  graph_->nodes[index(node_)].saved.end = size_of_vector(graph_->saved);
}

void NodeBuilder::clear(TensorId t) { graph_->cleared.push_back({node_, t}); }

void NodeBuilder::keep(TensorId t) { graph_->held_by_nodes.push_back({node_, t}); }

// A view of a leaf that requires a gradient requires one, made under no_grad or not (torch/csrc/autograd/variable.cpp,
// VariableHooks::grad_fn); what is computed of it does not.
void LayerBuilder::mark_views(std::span<const TensorId> outputs, std::span<const TensorId> inputs) {
  for (const TensorId base : inputs) {
    if (base == kNone || !graph_.tensor(base).of_trained) continue;
    for (const TensorId view : outputs)
      if (graph_.tensor(view).buffer == graph_.tensor(base).buffer) graph_.tensor(view).of_trained = true;
  }
}

NodeBuilder LayerBuilder::node(std::string_view name, Operands outputs, Operands inputs) {
  NodeBuilder builder;
  const bool wanted = std::ranges::any_of(inputs, [&](TensorId t) { return t != kNone && requires_grad(t); });
  if (!wanted) {
    mark_views(outputs, inputs);
    return builder;
  }
  AutogradNode n;
  n.name = name;
  n.layer = call_.layer;
  n.op = size_of_vector(graph_.forward_ops) - 1;
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
    BackwardValue incoming;
    incoming.shape = t.shape;
    incoming.dtype = t.dtype;
    graph_.locals.push_back(incoming);
  }
  n.locals.end = size_of_vector(graph_.locals);
  graph_.nodes.push_back(n);
  builder.graph_ = &graph_;
  builder.node_ = id;
  return builder;
}

}  // namespace gpuplan
