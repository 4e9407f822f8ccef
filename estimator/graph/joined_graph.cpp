#include "estimator/graph/joined_graph.h"

#include <utility>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

class Appender {
 public:
  Appender(Graph& to, const Graph& from) : to_(to), from_(from), at_(offsets_in(to)) {}

  void append() {
    append_values();
    append_operations();
    append_model();
    append_results();
  }

 private:
  static std::int32_t moved(std::int32_t id, std::int32_t by) { return id < 0 ? id : id + by; }
  static Range moved(Range r, std::int32_t by) { return {r.begin + by, r.end + by}; }
  TensorId tensor(TensorId t) const { return moved(t, at_.tensors); }

  template <class T, class Move>
  static void append(std::vector<T>& to, const std::vector<T>& from, Move move) {
    to.reserve(to.size() + from.size());
    for (T one : from) {
      move(one);
      to.push_back(std::move(one));
    }
  }
  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  void append_tensors(std::vector<TensorId>& to, const std::vector<TensorId>& from) const {
    append(to, from, [&](TensorId& t) { t = tensor(t); });
  }

  void append_values() {
    append(to_.buffers, from_.buffers, [&](Buffer& b) { b.layer = moved(b.layer, at_.layers); });
    append(to_.tensors, from_.tensors, [&](Tensor& t) {
      t.buffer = moved(t.buffer, at_.buffers);
      t.producer = moved(t.producer, at_.nodes);
      t.replaced_by = tensor(t.replaced_by);
    });
    append_tensors(to_.operands, from_.operands);  // a node's own values, below zero, stay
    append(to_.attributes, from_.attributes);
    append_tensors(to_.saved, from_.saved);
    append(to_.locals, from_.locals, [&](BackwardValue& v) {
      v.strides = moved(v.strides, at_.strides);
      if (v.view == ViewKind::saved) v.alias_of = tensor(v.alias_of);
    });
    append(to_.strides, from_.strides);
    append(to_.edges, from_.edges, [&](GradientEdge& e) { e.input = tensor(e.input); });
  }

  void append_operations() {
    const auto move = [&](Op& op) {
      op.layer = moved(op.layer, at_.layers);
      for (Range* const r : {&op.reads, &op.writes, &op.extra}) *r = moved(*r, at_.operands);
      op.attributes = moved(op.attributes, at_.attributes);
    };
    append(to_.forward_ops, from_.forward_ops, move);
    append(to_.backward_ops, from_.backward_ops, move);
    append(to_.nodes, from_.nodes, [&](AutogradNode& n) {
      n.layer = moved(n.layer, at_.layers);
      n.op = moved(n.op, at_.forward_ops);
      n.outputs = moved(n.outputs, at_.operands);
      n.saved = moved(n.saved, at_.saved);
      n.ops = moved(n.ops, at_.backward_ops);
      n.locals = moved(n.locals, at_.locals);
      n.edges = moved(n.edges, at_.edges);
    });
    const auto move_part = [&](Checkpoint& c) {
      c.ops = moved(c.ops, at_.forward_ops);
      c.nodes = moved(c.nodes, at_.nodes);
      c.given = moved(c.given, at_.operands);
      c.returned = moved(c.returned, at_.operands);
    };
    append(to_.checkpoints, from_.checkpoints, move_part);
    append(to_.wrapped, from_.wrapped, move_part);
  }

  void append_model() {
    append(to_.layers, from_.layers, [&](Layer& l) {
      l.inputs = moved(l.inputs, at_.operands);
      l.output = tensor(l.output);
      l.ops = moved(l.ops, at_.forward_ops);
    });
    const auto move = [&](auto& named) {
      named.tensor = tensor(named.tensor);
      named.layer = moved(named.layer, at_.layers);
    };
    append(to_.parameters, from_.parameters, move);
    append(to_.named_buffers, from_.named_buffers, move);
    append_tensors(to_.model_storage, from_.model_storage);
    append(to_.tied_shapes, from_.tied_shapes);
    append(to_.initial_values, from_.initial_values, [&](auto& initial) { initial.first = tensor(initial.first); });
    append(to_.flat_weights, from_.flat_weights, [&](FlatWeights& w) {
      w.whole = tensor(w.whole);
      w.parts = moved(w.parts, at_.operands);
    });
    append_tensors(to_.adapters, from_.adapters);
    append_tensors(to_.saved_modules, from_.saved_modules);
    const auto move_pair = [&](auto& pair) {
      pair = {moved(pair.first, at_.buffers), moved(pair.second, at_.buffers)};
    };
    append(to_.replaced_buffers, from_.replaced_buffers, move_pair);
    append(to_.converted_buffers, from_.converted_buffers, move_pair);
  }

  void append_results() {
    to_.loss_begin = from_.loss_begin + at_.forward_ops;
    to_.division = moved(from_.division, at_.forward_ops);
    to_.labels = tensor(from_.labels);
    append_tensors(to_.autocast_casts, from_.autocast_casts);
    append_tensors(to_.inputs, from_.inputs);
    to_.output = tensor(from_.output);
    to_.loss = tensor(from_.loss);
    to_.model_loss = tensor(from_.model_loss);
    append_tensors(to_.kept_with_output, from_.kept_with_output);
    append_tensors(to_.kept_in_forward, from_.kept_in_forward);
    append_tensors(to_.leaves, from_.leaves);
    const auto move_held = [&](HeldByNode& h) {
      h.node = moved(h.node, at_.nodes);
      h.tensor = tensor(h.tensor);
    };
    append(to_.held_by_nodes, from_.held_by_nodes, move_held);
    append(to_.cleared, from_.cleared, move_held);
  }

  Graph& to_;
  const Graph& from_;
  const GraphOffsets at_;
};

}  // namespace

GraphOffsets offsets_in(const Graph& graph) {
  return {size_of_vector(graph.buffers),    size_of_vector(graph.tensors),     size_of_vector(graph.operands),
          size_of_vector(graph.attributes), size_of_vector(graph.forward_ops), size_of_vector(graph.backward_ops),
          size_of_vector(graph.saved),      size_of_vector(graph.locals),      size_of_vector(graph.strides),
          size_of_vector(graph.edges),      size_of_vector(graph.nodes),       size_of_vector(graph.layers)};
}

void append_graph(Graph& graph, const Graph& more) { Appender(graph, more).append(); }

}  // namespace gpuplan
