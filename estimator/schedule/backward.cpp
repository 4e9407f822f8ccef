#include "estimator/schedule/backward.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "estimator/optimizer/grad_scaler.h"
#include "estimator/schedule/flowing.h"
#include "estimator/schedule/host_saved.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {
namespace {

constexpr Primitive kOnesLike{Fill{1}};
constexpr PyTorchVersion kAccumulatesInPlace = 200;  // before, input buffers always added out of place

const Tensor& tensor_of(const Graph& g, TensorId t) { return g.tensors[static_cast<std::size_t>(t)]; }

/// The operations of torch.autograd's engine for one backward.
class Engine {
 public:
  Engine(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept, const Schedule* first)
      : graph_(graph),
        run_(run),
        writer_(writer),
        kept_(kept),
        first_(run.optimizer_in_backward ? nullptr : first),
        reached_(reached_nodes(graph)),
        recompute_(graph, writer),
        host_(graph, writer) {}

  void run() {
    prepare();
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    if (loss.producer == kNone) return;
    const BufferId scaled = run_.scales_gradients() ? scalar("aten::mul", loss.buffer) : kNone;
    const BufferId root = scalar("aten::ones_like", kNone);
    refs(root) = 2;  // the engine's list of roots keeps it until backward returns
    const BufferId arriving = run_.scales_gradients() ? scalar("aten::mul", root) : root;  // MulBackward0
    if (arriving != root) refs(arriving) = 1;
    pending_[slot(loss.producer, loss.output_index)] = {.buffer = arriving};
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (reached_[n] != 0) run_node(static_cast<NodeId>(n));
    writer_.begin("backward returns", kNone, Phase::backward, nullptr);
    writer_.read(root);
    if (scaled != kNone) writer_.read(scaled);  // the argument of backward()
    collect_gradients();
  }

 private:
  // A value of the loss's size, computed from another one.
  BufferId scalar(std::string_view name, BufferId from) {
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    writer_.begin(name, kNone, Phase::backward, &kOnesLike);
    if (from != kNone) writer_.read(from);
    const BufferId b = new_gradient(loss.shape.elements() * size_of(loss.dtype), kNone);
    writer_.allocate(b);
    if (writer_.calls() != nullptr) {
      const auto as_loss = [&](BufferId buffer) { return view_of(loss, buffer); };
      if (from == kNone)
        writer_.record({}, {as_loss(b)}, {1});
      else
        writer_.record({as_loss(from)}, {as_loss(b)}, {kInitialScale});
    }
    return b;
  }

  void prepare() {
    first_slot_.reserve(graph_.nodes.size());
    std::size_t slots = 0;
    for (const AutogradNode& n : graph_.nodes) {
      first_slot_.push_back(slots);
      slots += static_cast<std::size_t>(n.outputs.end - n.outputs.begin);
    }
    pending_.resize(slots);
    leaf_uses_.assign(graph_.tensors.size(), 0);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (reached_[n] != 0)
        for (const GradientEdge& e : edges(graph_.nodes[n]))
          if (tensor_of(graph_, e.input).producer == kNone) ++leaf_uses_[static_cast<std::size_t>(e.input)];
    leaf_.assign(graph_.tensors.size(), kNone);
  }

  std::span<const GradientEdge> edges(const AutogradNode& n) const {
    return {graph_.edges.data() + n.edges.begin, static_cast<std::size_t>(n.edges.end - n.edges.begin)};
  }
  std::size_t slot(NodeId n, std::int32_t output) const {
    return first_slot_[static_cast<std::size_t>(n)] + static_cast<std::size_t>(output);
  }
  const Local& local_of(const AutogradNode& n, std::size_t i) const {
    return graph_.locals[static_cast<std::size_t>(n.locals.begin) + i];
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
    recompute_.enter(id);
    if (run_.offload_saved && !recompute_.inside()) host_.enter(id);
    for (std::int32_t o = n.ops.begin; o < n.ops.end; ++o) run_op(n, graph_.backward_ops[static_cast<std::size_t>(o)]);
    for (std::size_t i = outputs; i < locals_.size(); ++i) resolve_alias(n, i);
    if (recompute_.inside()) read_recomputed(n);
    const bool on_host = host_.inside();
    host_.leave();
    fit_results(n);
    finish(id, outputs, on_host);
    for (const Flowing& result : results_) ++refs(result.buffer);
    for (std::size_t k = 0; k < outputs; ++k)
      if (locals_[k].buffer != kNone) --refs(locals_[k].buffer);
    for (std::size_t e = 0; e < results_.size(); ++e) flow(edges(n)[e].input, results_[e], n.layer);
  }

  // A view without a kernel, of what it views.
  void resolve_alias(const AutogradNode& n, std::size_t i) {
    const Local& l = local_of(n, i);
    if (l.view == ViewKind::none || may_copy(l.view) || locals_[i].buffer != kNone) return;
    const auto base = static_cast<std::size_t>(l.alias_of);
    resolve_alias(n, base);
    const Flowing& of = locals_[base];
    Flowing& g = locals_[i];
    g = of;
    g.view = true;
    const Shape& from = local_of(n, base).shape;
    switch (l.view) {
      case ViewKind::permute:
        return lay_out(g, l.shape,
                       permuted(strides_of(of, from), graph_.strides[static_cast<std::size_t>(l.strides)], l.shape));
      case ViewKind::expand: return lay_out(g, l.shape, expanded(from, strides_of(of, from), l.shape));
      case ViewKind::narrow: {
        const Strides strides = strides_of(of, from);
        g.offset += l.start * strides[l.dim];
        return lay_out(g, l.shape, strides);
      }
      case ViewKind::same: g.offset += l.start; return;
      default: return;
    }
  }

  // reshape and contiguous, where the strides allow to do without a copy.
  bool is_a_view(const AutogradNode& n, std::size_t i) {
    const Local& l = local_of(n, i);
    const auto base = static_cast<std::size_t>(l.alias_of);
    const Shape& from = local_of(n, base).shape;
    const Flowing& of = locals_[base];
    const Strides strides = strides_of(of, from);
    if (l.view == ViewKind::contiguous && !of.contiguous) return false;
    if (l.view == ViewKind::channels_last && !is_channels_last(from, strides)) return false;
    if (l.view >= ViewKind::to_contiguous && suggested_format(from, strides) != format_of(l.view)) return false;
    locals_[i] = of;
    if (l.view != ViewKind::reshape) return true;
    const std::optional<Strides> viewed = view_strides(from, strides, l.shape);
    if (!viewed) {
      locals_[i] = {};
      return false;
    }
    locals_[i].view = true;
    lay_out(locals_[i], l.shape, *viewed);
    return true;
  }

  // The storage of an operand; a gradient that never arrived is zero-filled first.
  BufferId operand_buffer(const AutogradNode& n, Operand operand) {
    if (operand >= 0 && host_.inside()) return host_.copy_of(operand);
    if (operand >= 0) return recompute_.buffer(tensor_of(graph_, operand).buffer);
    const auto i = static_cast<std::size_t>(~operand);
    resolve_alias(n, i);
    return locals_[i].buffer;
  }

  void run_op(const AutogradNode& n, const Op& op) {
    for (const Operand r : graph_.at(op.reads))
      if (operand_buffer(n, r) == kNone) fill_with_zeros(n, r);
    const std::span<const Operand> writes = graph_.at(op.writes);
    if (writes.size() == 1 && may_copy(local_of(n, static_cast<std::size_t>(~writes[0])).view) &&
        is_a_view(n, static_cast<std::size_t>(~writes[0])))
      return;
    const bool runs = !std::holds_alternative<Marker>(op.what) || !writes.empty();
    writer_.begin(op.name, n.layer, Phase::backward, runs ? what_of(n, op) : nullptr);
    for (const Operand r : graph_.at(op.reads)) writer_.read(operand_buffer(n, r));
    for (const Operand w : writes) {
      const auto i = static_cast<std::size_t>(~w);
      const Local& l = local_of(n, i);
      locals_[i] = {.buffer = new_gradient(l.bytes(), n.layer)};
      place(n, op, l, locals_[i]);
      writer_.allocate(locals_[i].buffer);
    }
    writer_.record(graph_, op, [&](Operand r) { return view(n, r); });
    if (const auto* gemm = std::get_if<Gemm>(&op.what)) writer_.turn_factors(gemm->gradient);
  }

  OperandView view(const AutogradNode& n, Operand r) {
    if (r >= 0) return view_of(tensor_of(graph_, r), operand_buffer(n, r));
    const BufferId buffer = operand_buffer(n, r);
    const Local& l = local_of(n, static_cast<std::size_t>(~r));
    return view(locals_[static_cast<std::size_t>(~r)], l.shape, l.dtype, buffer);
  }
  static OperandView view(const Flowing& g, const Shape& shape, DType dtype) { return view(g, shape, dtype, g.buffer); }
  static OperandView view(const Flowing& g, const Shape& shape, DType dtype, BufferId buffer) {
    return {buffer, shape, strides_of(g, shape), g.offset, dtype};
  }

  // A reduction sees its operand in the order of its memory.
  const Primitive* what_of(const AutogradNode& n, const Op& op) {
    const auto* reduction = std::get_if<Reduction>(&op.what);
    if (reduction == nullptr || contiguous(graph_.at(op.reads).front())) return &op.what;
    const StridedShape operand = strided(n, graph_.at(op.reads).front());
    sums_.emplace_back(in_memory_order(*reduction, operand.strides));
    return &sums_.back();
  }

  void place(const AutogradNode& n, const Op& op, const Local& l, Flowing& g) {
    if (l.view != ViewKind::none && format_of(l.view) == MemoryFormat::channels_last)
      return lay_out(g, l.shape, strides_in(MemoryFormat::channels_last, l.shape));
    if (l.view != ViewKind::none) return;
    switch (l.placing) {
      case Placing::contiguous: return;
      case Placing::channels_last: return lay_out(g, l.shape, strides_in(MemoryFormat::channels_last, l.shape));
      case Placing::given: return lay_out(g, l.shape, graph_.strides[static_cast<std::size_t>(l.strides)]);
      case Placing::like:
      case Placing::suggested:
      case Placing::pointwise: break;
    }
    const std::span<const Operand> reads = graph_.at(op.reads);
    if (l.placing == Placing::suggested) {
      const StridedShape first = strided(n, reads.front());
      return lay_out(g, l.shape, strides_in(suggested_format(first.shape, first.strides), l.shape));
    }
    if (std::ranges::all_of(reads, [&](Operand r) { return contiguous(r); })) return;
    std::array<StridedShape, 4> operands;
    std::size_t count = 0;
    for (const Operand r : reads)
      if (count < operands.size()) operands[count++] = strided(n, r);
    lay_out(g, l.shape,
            l.placing == Placing::like ? strides_like(operands[0].shape, operands[0].strides)
                                       : pointwise_strides(l.shape, {operands.data(), count}));
  }

  bool contiguous(Operand r) const {
    return r >= 0 ? tensor_of(graph_, r).contiguous : locals_[static_cast<std::size_t>(~r)].contiguous;
  }
  StridedShape strided(const AutogradNode& n, Operand r) const {
    if (r >= 0) return {tensor_of(graph_, r).shape, tensor_of(graph_, r).strides};
    const Shape& shape = local_of(n, static_cast<std::size_t>(~r)).shape;
    return {shape, strides_of(locals_[static_cast<std::size_t>(~r)], shape)};
  }

  void fill_with_zeros(const AutogradNode& n, Operand operand) {
    const auto i = static_cast<std::size_t>(~operand);
    writer_.begin("aten::zeros", n.layer, Phase::backward, &kOnesLike);
    const BufferId b = new_gradient(local_of(n, i).bytes(), n.layer);
    writer_.allocate(b);
    locals_[i] = {.buffer = b};
    const Local& l = local_of(n, i);
    if (writer_.calls() != nullptr) writer_.record({}, {view(locals_[i], l.shape, l.dtype)}, {0});
    ++refs(b);
  }

  // validate_outputs: a gradient of another shape than its tensor is summed to it, of another type cast.
  void fit_results(const AutogradNode& n) {
    results_.clear();
    for (const GradientEdge& e : edges(n)) {
      Flowing g = locals_[static_cast<std::size_t>(e.value)];
      const Local& l = local_of(n, static_cast<std::size_t>(e.value));
      const Tensor& t = tensor_of(graph_, e.input);
      DType dtype = l.dtype;
      if (!(l.shape == t.shape)) {
        const Reduction sum{
            .shape = l.shape, .reduced = broadcast_dimensions(l.shape, t.shape), .input = dtype, .output = dtype};
        const Primitive what = g.contiguous ? sum : in_memory_order(sum, g.strides);
        const Flowing of = g;
        g = sum.reduced == 0 ? g : new_result("aten::sum", what, g, t, dtype, n.layer);
        if (sum.reduced != 0 && writer_.calls() != nullptr)
          writer_.record({view(of, l.shape, dtype)}, {view(g, t.shape, dtype)}, {static_cast<double>(sum.reduced)});
      }
      if (dtype != t.dtype) {
        const Strides strides = strides_like(t.shape, strides_of(g, t.shape));
        const Flowing of = g;
        g = new_result("aten::to", Elementwise{t.shape.elements(), 0}, g, t, t.dtype, n.layer);
        lay_out(g, t.shape, strides);
        if (writer_.calls() != nullptr) writer_.record({view(of, t.shape, dtype)}, {view(g, t.shape, t.dtype)});
      }
      results_.push_back(g);
    }
  }

  Flowing new_result(std::string_view name, const Primitive& what, const Flowing& of, const Tensor& like, DType dtype,
                     LayerId layer) {
    sums_.emplace_back(what);
    writer_.begin(name, layer, Phase::backward, &sums_.back());
    writer_.read(of.buffer);
    Flowing g{.buffer = new_gradient(like.shape.elements() * size_of(dtype), layer)};
    writer_.allocate(g.buffer);
    return g;
  }

  std::span<const TensorId> saved(const AutogradNode& n) const {
    return std::span(graph_.saved)
        .subspan(static_cast<std::size_t>(n.saved.begin), static_cast<std::size_t>(n.saved.end - n.saved.begin));
  }

  // What a checkpoint computed again is the node's alone: it goes with the names of the function that computes the
  // gradients, before those are fit to their tensors.
  void read_recomputed(const AutogradNode& n) {
    if (saved(n).empty()) return;
    if (n.ops.begin == n.ops.end) writer_.begin(n.name, n.layer, Phase::backward, nullptr);
    for (const TensorId t : saved(n)) {
      const BufferId forward = tensor_of(graph_, t).buffer;
      if (const BufferId again = recompute_.buffer(forward); again != forward) writer_.read(again);
    }
  }

  // The incoming gradients and the saved tensors, unless these wait on the host, are alive until the node has run.
  void finish(NodeId id, std::size_t outputs, bool on_host) {
    const AutogradNode& n = graph_.nodes[static_cast<std::size_t>(id)];
    const bool no_kernel = n.ops.begin == n.ops.end;
    const std::span<const TensorId> given = recompute_.leave(id);
    if (no_kernel) {
      if (saved(n).empty() && given.empty() && n.edges.begin != n.edges.end) return;
      writer_.begin(n.name, n.layer, Phase::backward, nullptr);
    }
    for (std::size_t k = 0; k < outputs; ++k)
      if (locals_[k].buffer != kNone) writer_.read(locals_[k].buffer);
    for (const TensorId t : saved(n))
      if (!on_host && recompute_.buffer(tensor_of(graph_, t).buffer) == tensor_of(graph_, t).buffer)
        writer_.read(tensor_of(graph_, t).buffer);
    for (const TensorId t : given) writer_.read(tensor_of(graph_, t).buffer);
  }

  // --- gradients meet ---------------------------------------------------------------------------------------------

  void flow(TensorId input, const Flowing& g, LayerId layer) {
    const Tensor& t = tensor_of(graph_, input);
    if (t.producer != kNone) {
      accumulate(pending_[slot(t.producer, t.output_index)], g, t, layer);
      return;
    }
    std::int32_t& leaf = leaf_[static_cast<std::size_t>(input)];
    if (leaf == kNone) {
      leaf = static_cast<std::int32_t>(leaf_gradient_.size());
      leaf_gradient_.emplace_back();
    }
    Flowing& waiting = leaf_gradient_[static_cast<std::size_t>(leaf)];
    accumulate(waiting, g, t, layer);
    if (--leaf_uses_[static_cast<std::size_t>(input)] == 0) keep_gradient(waiting, input);
  }

  // input_buffer.cpp, can_accumulate_inplace: in place when the buffered gradient is dense and nobody else refers to
  // its storage. A view refers to its base.
  void accumulate(Flowing& buffered, const Flowing& g, const Tensor& t, LayerId layer) {
    if (buffered.buffer == kNone) {
      buffered = g;
      return;
    }
    const bool alone = !buffered.view && refs(buffered.buffer) == 1;
    const bool in_place = run_.pytorch >= kAccumulatesInPlace && alone && dense(buffered, t.shape);
    sums_.emplace_back(Elementwise{t.shape.elements(), 1});
    writer_.begin(in_place ? "aten::add_" : "aten::add", layer, Phase::backward, &sums_.back());
    writer_.read(buffered.buffer);
    writer_.read(g.buffer);
    --refs(g.buffer);
    if (in_place) {
      if (writer_.calls() != nullptr) writer_.record({view(buffered, t.shape, t.dtype), view(g, t.shape, t.dtype)}, {});
      return;
    }
    --refs(buffered.buffer);
    Flowing sum{.buffer = new_gradient(t.shape.elements() * size_of(t.dtype), layer)};
    if (!buffered.contiguous || !g.contiguous) {
      const std::array<StridedShape, 2> operands{StridedShape{t.shape, strides_of(buffered, t.shape)},
                                                 StridedShape{t.shape, strides_of(g, t.shape)}};
      lay_out(sum, t.shape, pointwise_strides(t.shape, operands));
    }
    if (writer_.calls() != nullptr)
      writer_.record({view(buffered, t.shape, t.dtype), view(g, t.shape, t.dtype)}, {view(sum, t.shape, t.dtype)});
    buffered = sum;
    writer_.allocate(buffered.buffer);
    refs(buffered.buffer) = 1;
  }

  // accumulate_grad.h: a gradient of the parameter's layout that nobody else holds is taken as it is, else cloned. A
  // parameter that has one already gets the new one added in place.
  void keep_gradient(Flowing& g, TensorId input) {
    const Tensor& leaf = tensor_of(graph_, input);
    const BufferId arrived = g.buffer;
    const LayerId layer = graph_.buffers[static_cast<std::size_t>(leaf.buffer)].layer;
    if (first_ != nullptr) {
      sums_.emplace_back(Elementwise{leaf.shape.elements(), 1});
      writer_.begin("aten::add_", layer, Phase::backward, &sums_.back());
      writer_.read(g.buffer);
      if (const OperandView* there = gradient_there(input))
        writer_.record({*there, view(g, leaf.shape, leaf.dtype)}, {});
      return;
    }
    if (!obeys_layout(g, leaf) || (!g.view && refs(g.buffer) > 1)) {
      sums_.emplace_back(Copy{leaf.shape.elements()});
      writer_.begin("aten::clone", layer, Phase::backward, &sums_.back());
      writer_.read(g.buffer);
      const Flowing of = g;
      g = {.buffer = new_gradient(leaf.shape.elements() * size_of(leaf.dtype), kNone)};
      lay_out(g, leaf.shape, leaf.strides);
      writer_.allocate(g.buffer);
      if (writer_.calls() != nullptr)
        writer_.record({view(of, leaf.shape, leaf.dtype)}, {view(g, leaf.shape, leaf.dtype)});
      refs(g.buffer) = 1;
    }
    Buffer& b = writer_.schedule().buffers[static_cast<std::size_t>(g.buffer)];
    b.category = Category::gradients;
    b.layer = layer;
    if (run_.optimizer_in_backward && leaf.trained) return update(input, g.buffer, arrived);
    if (kept_.size() <= static_cast<std::size_t>(g.buffer)) kept_.resize(static_cast<std::size_t>(g.buffer) + 1, 0);
    kept_[static_cast<std::size_t>(g.buffer)] = 1;
  }

  // The gradient that the parameter has of the first micro-batch; null where nothing is recorded.
  const OperandView* gradient_there(TensorId parameter) {
    if (writer_.calls() == nullptr) return nullptr;
    for (std::size_t i = 0; i < first_->with_gradient.size(); ++i)
      if (graph_.parameters[static_cast<std::size_t>(first_->with_gradient[i])].tensor == parameter)
        return &writer_.calls()->gradients[i];
    return nullptr;
  }

  // The hook that runs once the gradient is there steps the parameter and lets go of the gradient; what arrived is held
  // until AccumulateGrad returns.
  void update(TensorId parameter, BufferId gradient, BufferId arrived) {
    Schedule& s = writer_.schedule();
    s.updates.push_back({static_cast<std::int32_t>(s.steps.size()), parameter});
    writer_.begin("Optimizer.step", s.buffers[static_cast<std::size_t>(gradient)].layer, Phase::backward, nullptr);
    writer_.read(gradient);
    writer_.read(arrived);
  }

  void collect_gradients() {
    Schedule& s = writer_.schedule();
    std::vector<char> seen(s.buffers.size(), 0);
    std::vector<std::int32_t> parameter_of(graph_.tensors.size(), kNone);
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i) {
      const std::int32_t leaf = leaf_[static_cast<std::size_t>(graph_.parameters[i].tensor)];
      if (leaf == kNone) continue;
      const Flowing& g = leaf_gradient_[static_cast<std::size_t>(leaf)];
      parameter_of[static_cast<std::size_t>(graph_.parameters[i].tensor)] =
          static_cast<std::int32_t>(s.gradient_of.size());
      s.with_gradient.push_back(static_cast<std::int32_t>(i));
      s.gradient_of.push_back(g.buffer);
      if (writer_.calls() != nullptr && first_ == nullptr) {
        const Tensor& leaf_tensor = tensor_of(graph_, graph_.parameters[i].tensor);
        writer_.calls()->gradients.push_back(view(g, leaf_tensor.shape, leaf_tensor.dtype));
      }
      if (!run_.optimizer_in_backward && first_ == nullptr &&
          std::exchange(seen[static_cast<std::size_t>(g.buffer)], 1) == 0)
        s.gradients.push_back(g.buffer);
    }
    for (Schedule::Update& u : s.updates) u.parameter = parameter_of[static_cast<std::size_t>(u.parameter)];
  }

  const Graph& graph_;
  const RunConfig& run_;
  StepWriter& writer_;
  std::vector<char>& kept_;
  const Schedule* first_;  // whose gradients those of this one are added to; null: they begin with this one
  std::vector<char> reached_;
  Recompute recompute_;
  UnpackedFromHost host_;
  std::vector<std::size_t> first_slot_;
  std::vector<Flowing> pending_;        // by node and output: the engine's input buffers
  std::vector<std::int32_t> leaf_;      // by tensor: its place in leaf_gradient_
  std::vector<Flowing> leaf_gradient_;  // of tensors that no node made
  std::vector<std::int32_t> leaf_uses_;
  std::vector<Flowing> locals_;
  std::vector<Flowing> results_;  // of the node, an edge each
  std::vector<int> refs_;
  std::deque<Primitive>& sums_ = writer_.schedule().sums;
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

void append_backward(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept,
                     const Schedule* first) {
  Engine(graph, run, writer, kept, first).run();
}

}  // namespace gpuplan
