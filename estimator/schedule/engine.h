// The operations of torch.autograd's engine for one backward: nodes in descending order, each with its kernels, then
// what it held goes, then its results move on (torch/csrc/autograd/engine.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/schedule/gradient_tensor.h"
#include "estimator/schedule/host_saved.h"
#include "estimator/schedule/input_buffers.h"
#include "estimator/schedule/node_values.h"
#include "estimator/schedule/pruned_graph.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {

inline constexpr Primitive kOnesLike{Fill{1}};

inline const Tensor& tensor_of(const Graph& g, TensorId t) { return g.tensors[static_cast<std::size_t>(t)]; }

/// The operations of torch.autograd's engine for one backward.
class Engine {
 public:
  Engine(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept, const Schedule* first,
         std::vector<char> reached, bool converts_each = false)
      : graph_(graph),
        run_(run),
        writer_(writer),
        reached_(std::move(reached)),
        recompute_(graph, writer, run.offload_saved),
        host_(graph, writer),
        gradients_(graph, run, writer, kept, run.optimizer_in_backward ? nullptr : first, reached_, converts_each),
        values_(graph) {}

  void run() {
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    if (loss.producer == kNone) return;
    run_from_loss();
    gradients_.collect_gradients();
  }

  /// The gradients that came to a node's outputs.
  using Arrived = std::vector<GradientTensor>;
  /// To what the graph leads to; notes what comes to the nodes that `noted` names, and keeps it.
  std::vector<Arrived> run_noting(const std::vector<char>& noted) {
    noted_ = &noted;
    arrived_.resize(graph_.nodes.size());
    run_from_loss();
    return std::move(arrived_);
  }
  /// Begins with what came to the group's nodes.
  void run_group(const SplitBackward::Group& group, const std::vector<Arrived>& arrived) {
    for (const NodeId n : group.from)
      for (std::size_t k = 0; k < arrived[static_cast<std::size_t>(n)].size(); ++k) {
        const GradientTensor& g = arrived[static_cast<std::size_t>(n)][k];
        if (g.buffer == kNone) continue;
        gradients_.refs(g.buffer) = 2;  // what was noted stays
        gradients_.pending(n, static_cast<std::int32_t>(k)) = g;
      }
    for (auto n = group.nodes.rbegin(); n != group.nodes.rend(); ++n) run_node(*n);
  }
  void collect_gradients() { gradients_.collect_gradients(); }

 private:
  void run_from_loss() {
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    const BufferId scaled = run_.scales_gradients() ? scalar(Operator::mul, loss.buffer) : kNone;
    const BufferId root = scalar(Operator::ones_like, kNone);
    gradients_.refs(root) = 2;  // the engine's list of roots keeps it until backward returns
    const BufferId arriving = run_.scales_gradients() ? scalar(Operator::mul, root) : root;  // MulBackward0
    if (arriving != root) gradients_.refs(arriving) = 1;
    gradients_.pending(loss.producer, loss.output_index) = {.buffer = arriving};
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (reached_[n] != 0) run_node(static_cast<NodeId>(n));
    writer_.mark(kBackwardReturns, kNone, Phase::backward);
    writer_.read(root);
    for (const TensorId t : graph_.kept_in_backward) writer_.read(buffer_of(graph_, t));
    if (scaled != kNone) writer_.read(scaled);  // the argument of backward()
  }

  // A value of the loss's size, computed from another one.
  BufferId scalar(Operator op, BufferId from) {
    const Tensor& loss = tensor_of(graph_, graph_.loss);
    writer_.begin(op, kNone, Phase::backward, &kOnesLike);
    if (from != kNone) writer_.read(from);
    const BufferId b = gradients_.new_gradient(loss.shape.elements() * size_of(loss.dtype), kNone);
    writer_.allocate(b);
    if (writer_.calls() != nullptr) {
      const auto as_loss = [&](BufferId buffer) { return view_of(loss, buffer); };
      if (from == kNone)
        writer_.record({}, {as_loss(b)});
      else
        writer_.record({as_loss(from)}, {as_loss(b)}, {{Attribute::other, kInitialScale}});
    }
    return b;
  }

  // --- one node: its kernels, then what it held is let go, then its results move on (engine.cpp, call_function)

  void run_node(NodeId id) {
    const AutogradNode& n = graph_.nodes[static_cast<std::size_t>(id)];
    const auto outputs = static_cast<std::size_t>(n.outputs.end - n.outputs.begin);
    values_.enter(n);
    bool any = false;
    for (std::size_t k = 0; k < outputs; ++k) {
      values_[k] = gradients_.pending(id, static_cast<std::int32_t>(k));
      any = any || values_[k].buffer != kNone;
    }
    if (!any) return;
    if (noted_ != nullptr && (*noted_)[static_cast<std::size_t>(id)] != 0) note(id, outputs);
    recompute_.enter(id);
    hold_returned(n, outputs);
    if (run_.offload_saved && !recompute_.inside()) host_.enter(id);
    for (std::size_t i = outputs; i < values_.size(); ++i) lie_in_saved(i);
    for (std::int32_t o = n.ops.begin; o < n.ops.end; ++o) run_op(n, graph_.backward_ops[static_cast<std::size_t>(o)]);
    for (std::size_t i = outputs; i < values_.size(); ++i) values_.resolve_alias(i);
    if (recompute_.inside()) read_recomputed(n);
    const bool on_host = host_.inside();
    host_.leave();
    fit_results(n);
    finish(id, outputs, on_host);
    let_go_of_returned(id);
    for (const GradientTensor& result : results_) ++gradients_.refs(result.buffer);
    for (std::size_t k = 0; k < outputs; ++k)
      if (values_[k].buffer != kNone) --gradients_.refs(values_[k].buffer);
    for (std::size_t e = 0; e < results_.size(); ++e)
      gradients_.flow(edges_of(graph_, n)[e].input, results_[e], n.layer);
  }

  void note(NodeId id, std::size_t outputs) {
    for (std::size_t k = 0; k < outputs; ++k) {
      arrived_[static_cast<std::size_t>(id)].push_back(values_[k]);
      if (values_[k].buffer != kNone) ++gradients_.refs(values_[k].buffer);
    }
  }

  // What a kernel writes over a tensor that the forward left.
  void lie_in_saved(std::size_t i) {
    const BackwardValue& l = values_.local(i);
    if (l.view != ViewKind::saved) return;
    const Tensor& t = tensor_of(graph_, l.alias_of);
    values_[i] = {.buffer = operand_buffer(l.alias_of), .view = true, .offset = t.offset};
    if (!t.contiguous && t.shape == l.shape) lay_out(values_[i], l.shape, t.strides);
  }

  // Of a part that reenters autograd: the arguments of its backward.
  void hold_returned(const AutogradNode& n, std::size_t outputs) {
    for (std::size_t k = 0; k < outputs; ++k) {
      if (values_[k].buffer == kNone || !recompute_.returns(graph_.at(n.outputs)[k])) continue;
      held_.push_back(values_[k].buffer);
      ++gradients_.refs(values_[k].buffer);
    }
  }

  void let_go_of_returned(NodeId id) {
    const std::span<const TensorId> returned = recompute_.returned(id);
    if (returned.empty()) return;
    writer_.mark("CheckpointFunctionBackward", graph_.nodes[static_cast<std::size_t>(id)].layer, Phase::backward);
    for (const TensorId t : returned) {
      const BufferId forward = tensor_of(graph_, t).buffer;
      if (const BufferId again = recompute_.buffer(forward); again != forward) writer_.read(again);
    }
    for (const BufferId g : held_) {
      writer_.read(g);
      --gradients_.refs(g);
    }
    held_.clear();
  }

  // The storage of an operand; a gradient that never arrived is zero-filled first.
  BufferId operand_buffer(Operand operand) {
    if (operand >= 0 && host_.inside()) return host_.copy_of(operand);
    if (operand >= 0) return recompute_.buffer(tensor_of(graph_, operand).buffer);
    const auto i = static_cast<std::size_t>(~operand);
    values_.resolve_alias(i);
    return values_[i].buffer;
  }

  void run_op(const AutogradNode& n, const Op& op) {
    for (const Operand r : graph_.at(op.reads))
      if (operand_buffer(r) == kNone) fill_with_zeros(n, r);
    const std::span<const Operand> writes = graph_.at(op.writes);
    if (writes.size() == 1 && may_copy(values_.local(static_cast<std::size_t>(~writes[0])).view) &&
        values_.is_a_view(static_cast<std::size_t>(~writes[0])))
      return;
    const bool runs = !std::holds_alternative<Marker>(op.what) || !writes.empty();
    writer_.begin(op.kind, n.layer, Phase::backward, runs ? what_of(op) : nullptr);
    for (const Operand r : graph_.at(op.reads)) writer_.read(operand_buffer(r));
    for (const Operand w : writes) {
      const auto i = static_cast<std::size_t>(~w);
      const BackwardValue& l = values_.local(i);
      values_[i] = {.buffer = gradients_.new_gradient(l.bytes(), n.layer)};
      values_.place(op, i);
      writer_.allocate(values_[i].buffer);
    }
    writer_.record(graph_, op, [&](Operand r) { return view(r); });
    if (const auto* gemm = std::get_if<Gemm>(&op.what)) writer_.turn_factors(gemm->gradient);
  }

  OperandView view(Operand r) {
    if (r >= 0) return view_of(tensor_of(graph_, r), operand_buffer(r));
    const BufferId buffer = operand_buffer(r);
    const BackwardValue& l = values_.local(static_cast<std::size_t>(~r));
    return view_of(values_[static_cast<std::size_t>(~r)], l.shape, l.dtype, buffer);
  }

  // What a kernel does depends on how its operands lie.
  const Primitive* what_of(const Op& op) {
    std::optional<Primitive> as_they_lie;
    if (const auto* reduction = std::get_if<Reduction>(&op.what))
      as_they_lie = of_strided(op, *reduction);
    else if (const auto* softmax = std::get_if<Softmax>(&op.what))
      as_they_lie = of_strided(op, *softmax);
    else if (const auto* gemm = std::get_if<Gemm>(&op.what))
      as_they_lie = of_strided(op, *gemm);
    if (!as_they_lie) return &op.what;
    sums_.emplace_back(*as_they_lie);
    return &sums_.back();
  }

  StridedShape read_by(const Op& op, std::size_t i) const { return values_.strided(graph_.at(op.reads)[i]); }

  // A reduction sees its operand in the order of its memory.
  std::optional<Primitive> of_strided(const Op& op, const Reduction& reduction) const {
    if (values_.contiguous(graph_.at(op.reads).front())) return std::nullopt;
    return in_memory_order(reduction, read_by(op, 0).strides);
  }

  // Softmax's backward makes the gradient, or its product with the result, contiguous (SoftMax.cu,
  // host_softmax_backward).
  std::optional<Primitive> of_strided(const Op& op, Softmax softmax) const {
    if (!softmax.backward || values_.contiguous(graph_.at(op.reads).front())) return std::nullopt;
    const std::array<StridedShape, 2> factors = {read_by(op, 0), read_by(op, 1)};
    const Shape& shape = factors[0].shape;
    if (softmax.product_scratch && is_contiguous(shape, pointwise_strides(shape, factors))) return std::nullopt;
    softmax.copies = true;
    return softmax;
  }

  std::optional<Primitive> of_strided(const Op& op, Gemm gemm) const {
    const auto copied = [&](std::size_t i) {
      if (values_.contiguous(graph_.at(op.reads)[i])) return std::int64_t{0};
      const StridedShape operand = read_by(op, i);
      return operand.shape.rank() < 2 || fits_cublas(operand) ? 0 : operand.shape.elements();
    };
    gemm.first_copied = copied(0);
    gemm.second_copied = copied(1);
    if (gemm.first_copied == 0 && gemm.second_copied == 0) return std::nullopt;
    return gemm;
  }

  void fill_with_zeros(const AutogradNode& n, Operand operand) {
    const auto i = static_cast<std::size_t>(~operand);
    writer_.begin(Operator::zeros, n.layer, Phase::backward, &kOnesLike);
    const BufferId b = gradients_.new_gradient(values_.local(i).bytes(), n.layer);
    writer_.allocate(b);
    values_[i] = {.buffer = b};
    const BackwardValue& l = values_.local(i);
    if (writer_.calls() != nullptr) writer_.record({}, {view_of(values_[i], l.shape, l.dtype)});
    ++gradients_.refs(b);
  }

  // validate_outputs: a gradient of another shape than its tensor is summed to it, of another type cast.
  void fit_results(const AutogradNode& n) {
    results_.clear();
    for (const GradientEdge& e : edges_of(graph_, n)) {
      GradientTensor g = values_[static_cast<std::size_t>(e.value)];
      const BackwardValue& l = values_.local(static_cast<std::size_t>(e.value));
      const Tensor& t = tensor_of(graph_, e.input);
      DType dtype = l.dtype;
      if (!(l.shape == t.shape)) {
        const Reduction sum{
            .shape = l.shape, .reduced = broadcast_dimensions(l.shape, t.shape), .input = dtype, .output = dtype};
        const Primitive what = g.contiguous ? sum : in_memory_order(sum, g.strides);
        const GradientTensor of = g;
        g = sum.reduced == 0 ? g : new_result(Operator::sum, what, g, t.shape.elements(), dtype, n.layer);
        if (sum.reduced != 0 && writer_.calls() != nullptr)
          writer_.record({view_of(of, l.shape, dtype)}, {view_of(g, t.shape, dtype)}, {{Attribute::dims, sum.reduced}});
      }
      if (const DType wanted = gradients_.type_for(e.input); dtype != wanted) {
        const Strides strides = strides_like(t.shape, strides_of(g, t.shape));
        const GradientTensor of = g;
        const std::int64_t elements = std::max(l.storage_bytes / size_of(l.dtype), t.shape.elements());
        g = new_result(Operator::to, Elementwise{elements, 0}, g, elements, wanted, n.layer);
        lay_out(g, t.shape, strides);
        if (writer_.calls() != nullptr) writer_.record({view_of(of, t.shape, dtype)}, {view_of(g, t.shape, wanted)});
      }
      results_.push_back(g);
    }
  }

  GradientTensor new_result(Operator op, const Primitive& what, const GradientTensor& of, std::int64_t elements,
                            DType dtype, LayerId layer) {
    sums_.emplace_back(what);
    writer_.begin(op, layer, Phase::backward, &sums_.back());
    writer_.read(of.buffer);
    GradientTensor g{.buffer = gradients_.new_gradient(elements * size_of(dtype), layer)};
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
    if (n.ops.begin == n.ops.end) writer_.mark(n.name, n.layer, Phase::backward);
    for (const TensorId t : saved(n)) {
      const BufferId forward = tensor_of(graph_, t).buffer;
      if (is_cleared(n, t)) continue;
      if (const BufferId again = recompute_.buffer(forward); again != forward) writer_.read(again);
    }
  }

  // By the function itself, which read it last in one of its kernels.
  bool is_cleared(const AutogradNode& n, TensorId t) const {
    const auto id = static_cast<NodeId>(&n - graph_.nodes.data());
    return std::ranges::any_of(graph_.cleared, [&](const HeldByNode& h) { return h.node == id && h.tensor == t; });
  }

  // The incoming gradients and the saved tensors, unless these wait on the host, are alive until the node has run.
  void finish(NodeId id, std::size_t outputs, bool on_host) {
    const AutogradNode& n = graph_.nodes[static_cast<std::size_t>(id)];
    const bool no_kernel = n.ops.begin == n.ops.end;
    const std::span<const TensorId> given = recompute_.leave(id);
    if (no_kernel) {
      if (saved(n).empty() && given.empty() && n.edges.begin != n.edges.end) return;
      writer_.mark(n.name, n.layer, Phase::backward);
    }
    for (std::size_t k = 0; k < outputs; ++k)
      if (values_[k].buffer != kNone) writer_.read(values_[k].buffer);
    for (const TensorId t : saved(n))
      if (!on_host && !is_cleared(n, t) &&
          recompute_.buffer(tensor_of(graph_, t).buffer) == tensor_of(graph_, t).buffer)
        writer_.read(tensor_of(graph_, t).buffer);
    for (const TensorId t : given) writer_.read(recompute_.buffer(tensor_of(graph_, t).buffer));
  }

  const Graph& graph_;
  const RunConfig& run_;
  StepWriter& writer_;
  std::vector<char> reached_;
  Recompute recompute_;
  UnpackedFromHost host_;
  InputBuffers gradients_;
  NodeValues values_;
  std::vector<GradientTensor> results_;  // of the node, an edge each
  std::vector<BufferId> held_;           // gradients that a part that reenters autograd was given
  const std::vector<char>* noted_ = nullptr;
  std::vector<Arrived> arrived_;  // by node
  std::deque<Primitive>& sums_ = writer_.schedule().sums;
};

}  // namespace gpuplan
