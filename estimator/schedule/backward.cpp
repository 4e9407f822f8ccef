#include "estimator/schedule/backward.h"

#include <utility>

namespace gpuplan {
namespace {

constexpr Primitive kOnesLike{Fill{1}};
constexpr PyTorchVersion kAccumulatesInPlace = 200;  // before, input buffers always added out of place

const Tensor& tensor_of(const Graph& g, TensorId t) { return g.tensors[static_cast<std::size_t>(t)]; }

/// A gradient on its way: in the input buffer of a node, or waiting for a leaf's other contributions.
struct Flowing {
  BufferId buffer = kNone;
  bool dense = true;
  bool view = false;
};

class Engine {
 public:
  Engine(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept)
      : graph_(graph), run_(run), writer_(writer), kept_(kept), reached_(reached_nodes(graph)) {}

  void run() {
    prepare();
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    if (loss.producer == kNone) return;
    const std::int64_t loss_bytes = loss.shape.elements() * size_of(loss.dtype);
    writer_.begin("aten::ones_like", kNone, Phase::backward, &kOnesLike);
    const BufferId root = new_gradient(loss_bytes, kNone);
    writer_.allocate(root);
    refs(root) = 2;  // the engine's list of roots keeps it until backward returns
    pending_[slot(loss.producer, loss.output_index)] = {root, true, false};
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (reached_[n] != 0) run_node(static_cast<NodeId>(n));
    writer_.begin("backward returns", kNone, Phase::backward, nullptr);
    writer_.read(root);
    collect_gradients();
  }

 private:
  void prepare() {
    first_slot_.reserve(graph_.nodes.size());
    std::size_t slots = 0;
    for (const AutogradNode& n : graph_.nodes) {
      first_slot_.push_back(slots);
      slots += static_cast<std::size_t>(n.outputs.end - n.outputs.begin);
    }
    pending_.resize(slots);
    leaf_uses_.assign(graph_.tensors.size(), 0);
    leaf_gradient_.resize(graph_.tensors.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (reached_[n] != 0)
        for (const GradientEdge& e : edges(graph_.nodes[n]))
          if (tensor_of(graph_, e.input).producer == kNone) ++leaf_uses_[static_cast<std::size_t>(e.input)];
  }

  std::span<const GradientEdge> edges(const AutogradNode& n) const {
    return {graph_.edges.data() + n.edges.begin, static_cast<std::size_t>(n.edges.end - n.edges.begin)};
  }
  std::size_t slot(NodeId n, std::int32_t output) const {
    return first_slot_[static_cast<std::size_t>(n)] + static_cast<std::size_t>(output);
  }

  BufferId new_gradient(std::int64_t bytes, LayerId layer) {
    return writer_.new_buffer(bytes, Category::activation_gradients, layer);
  }
  // How many live gradient tensors share the storage.
  int& refs(BufferId b) {
    if (refs_.size() <= static_cast<std::size_t>(b))
      refs_.resize(static_cast<std::size_t>(b) + 1 + refs_.size() / 2, 0);
    return refs_[static_cast<std::size_t>(b)];
  }

  // --- one node: its kernels, then what it held is let go, then its results move on (engine.cpp, call_function)

  void run_node(NodeId id) {
    const AutogradNode& n = graph_.nodes[static_cast<std::size_t>(id)];
    const auto outputs = static_cast<std::size_t>(n.outputs.end - n.outputs.begin);
    locals_.assign(static_cast<std::size_t>(n.locals.end - n.locals.begin), {});
    bool any = false;
    for (std::size_t k = 0; k < outputs; ++k) {
      locals_[k] = pending_[slot(id, static_cast<std::int32_t>(k))];
      any = any || locals_[k].buffer != kNone;
    }
    if (!any) return;
    for (std::int32_t o = n.ops.begin; o < n.ops.end; ++o) run_op(n, graph_.backward_ops[static_cast<std::size_t>(o)]);
    for (std::size_t i = outputs; i < locals_.size(); ++i) resolve_alias(n, i);
    finish(n, outputs);
    for (const GradientEdge& e : edges(n)) ++refs(locals_[static_cast<std::size_t>(e.value)].buffer);
    for (std::size_t k = 0; k < outputs; ++k)
      if (locals_[k].buffer != kNone) --refs(locals_[k].buffer);
    for (const GradientEdge& e : edges(n)) flow(e.input, locals_[static_cast<std::size_t>(e.value)], n.layer);
  }

  void resolve_alias(const AutogradNode& n, std::size_t i) {
    const Local& l = graph_.locals[static_cast<std::size_t>(n.locals.begin) + i];
    if (l.alias_of == kNone) return;
    const Flowing& of = locals_[static_cast<std::size_t>(l.alias_of)];
    locals_[i] = {of.buffer, of.dense && l.dense, true};
  }

  // The storage of an operand; a gradient that never arrived is zero-filled first.
  BufferId operand_buffer(const AutogradNode& n, Operand operand) {
    if (operand >= 0) return tensor_of(graph_, operand).buffer;
    const auto i = static_cast<std::size_t>(~operand);
    resolve_alias(n, i);
    return locals_[i].buffer;
  }

  void run_op(const AutogradNode& n, const Op& op) {
    for (const Operand r : graph_.at(op.reads))
      if (operand_buffer(n, r) == kNone) fill_with_zeros(n, r);
    writer_.begin(op.name, n.layer, Phase::backward, std::holds_alternative<Marker>(op.what) ? nullptr : &op.what);
    for (const Operand r : graph_.at(op.reads)) writer_.read(operand_buffer(n, r));
    for (const Operand w : graph_.at(op.writes)) {
      const Local& l = graph_.locals[static_cast<std::size_t>(n.locals.begin + ~w)];
      const BufferId b = new_gradient(l.bytes, n.layer);
      locals_[static_cast<std::size_t>(~w)] = {b, l.dense, false};
      writer_.allocate(b);
    }
  }

  void fill_with_zeros(const AutogradNode& n, Operand operand) {
    const auto i = static_cast<std::size_t>(~operand);
    const Local& l = graph_.locals[static_cast<std::size_t>(n.locals.begin) + i];
    writer_.begin("aten::zeros", n.layer, Phase::backward, &kOnesLike);
    const BufferId b = new_gradient(l.bytes, n.layer);
    writer_.allocate(b);
    locals_[i] = {b, true, false};
    ++refs(b);
  }

  // The incoming gradients and the saved tensors are alive until the node has run.
  void finish(const AutogradNode& n, std::size_t outputs) {
    const bool no_kernel = n.ops.begin == n.ops.end;
    const auto saved =
        std::span(graph_.saved)
            .subspan(static_cast<std::size_t>(n.saved.begin), static_cast<std::size_t>(n.saved.end - n.saved.begin));
    if (no_kernel) {
      if (saved.empty() && n.edges.begin != n.edges.end) return;
      writer_.begin(n.name, n.layer, Phase::backward, nullptr);
    }
    for (std::size_t k = 0; k < outputs; ++k)
      if (locals_[k].buffer != kNone) writer_.read(locals_[k].buffer);
    for (const TensorId t : saved) writer_.read(tensor_of(graph_, t).buffer);
  }

  // --- gradients meet ---------------------------------------------------------------------------------------------

  void flow(TensorId input, const Flowing& g, LayerId layer) {
    const Tensor& t = tensor_of(graph_, input);
    if (t.producer != kNone) {
      accumulate(pending_[slot(t.producer, t.output_index)], g, t, layer);
      return;
    }
    Flowing& waiting = leaf_gradient_[static_cast<std::size_t>(input)];
    accumulate(waiting, g, t, layer);
    if (--leaf_uses_[static_cast<std::size_t>(input)] == 0) keep_gradient(waiting, t);
  }

  // input_buffer.cpp, can_accumulate_inplace: in place when the buffered gradient is dense and nobody else refers to
  // its storage. A view refers to its base.
  void accumulate(Flowing& buffered, const Flowing& g, const Tensor& t, LayerId layer) {
    if (buffered.buffer == kNone) {
      buffered = g;
      return;
    }
    const bool alone = !buffered.view && refs(buffered.buffer) == 1;
    const bool in_place = run_.pytorch >= kAccumulatesInPlace && buffered.dense && alone;
    sums_.push_back(std::make_unique<Primitive>(Elementwise{t.shape.elements(), 1}));
    writer_.begin(in_place ? "aten::add_" : "aten::add", layer, Phase::backward, sums_.back().get());
    writer_.read(buffered.buffer);
    writer_.read(g.buffer);
    --refs(g.buffer);
    if (in_place) return;
    --refs(buffered.buffer);
    buffered = {new_gradient(t.shape.elements() * size_of(t.dtype), layer), true, false};
    writer_.allocate(buffered.buffer);
    refs(buffered.buffer) = 1;
  }

  // accumulate_grad.h: a gradient of the parameter's layout that nobody else holds is taken as it is, else cloned.
  void keep_gradient(Flowing& g, const Tensor& leaf) {
    if (!g.dense || (!g.view && refs(g.buffer) > 1)) {
      sums_.push_back(std::make_unique<Primitive>(Copy{leaf.shape.elements()}));
      writer_.begin("aten::clone", graph_.buffers[static_cast<std::size_t>(leaf.buffer)].layer, Phase::backward,
                    sums_.back().get());
      writer_.read(g.buffer);
      g = {new_gradient(leaf.shape.elements() * size_of(leaf.dtype), kNone), true, false};
      writer_.allocate(g.buffer);
      refs(g.buffer) = 1;
    }
    Buffer& b = writer_.schedule().buffers[static_cast<std::size_t>(g.buffer)];
    b.category = Category::gradients;
    b.layer = graph_.buffers[static_cast<std::size_t>(leaf.buffer)].layer;
    if (kept_.size() <= static_cast<std::size_t>(g.buffer)) kept_.resize(static_cast<std::size_t>(g.buffer) + 1, 0);
    kept_[static_cast<std::size_t>(g.buffer)] = 1;
  }

  void collect_gradients() {
    Schedule& s = writer_.schedule();
    std::vector<char> seen(s.buffers.size(), 0);
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Flowing& g = leaf_gradient_[static_cast<std::size_t>(graph_.parameters[i].tensor)];
      if (g.buffer == kNone) continue;
      s.with_gradient.push_back(static_cast<std::int32_t>(i));
      if (std::exchange(seen[static_cast<std::size_t>(g.buffer)], 1) == 0) s.gradients.push_back(g.buffer);
    }
  }

  const Graph& graph_;
  const RunConfig& run_;
  StepWriter& writer_;
  std::vector<char>& kept_;
  std::vector<char> reached_;
  std::vector<std::size_t> first_slot_;
  std::vector<Flowing> pending_;        // by node and output: the engine's input buffers
  std::vector<Flowing> leaf_gradient_;  // by tensor
  std::vector<std::int32_t> leaf_uses_;
  std::vector<Flowing> locals_;
  std::vector<int> refs_;
  std::vector<std::unique_ptr<Primitive>>& sums_ = writer_.schedule().sums;
};

}  // namespace

std::vector<char> reached_nodes(const Graph& graph) {
  std::vector<char> reached(graph.nodes.size(), 0);
  if (graph.loss == kNone) return reached;
  const NodeId root = tensor_of(graph, graph.loss).producer;
  if (root == kNone) return reached;
  reached[static_cast<std::size_t>(root)] = 1;
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (reached[n] != 0)
      for (std::int32_t e = graph.nodes[n].edges.begin; e < graph.nodes[n].edges.end; ++e) {
        const NodeId p = tensor_of(graph, graph.edges[static_cast<std::size_t>(e)].input).producer;
        if (p != kNone) reached[static_cast<std::size_t>(p)] = 1;
      }
  return reached;
}

void append_backward(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept) {
  Engine(graph, run, writer, kept).run();
}

}  // namespace gpuplan
