// Gradient accumulation of one backward: in the input buffers of autograd's nodes, and at the leaves
// (torch/csrc/autograd/input_buffer.cpp, functions/accumulate_grad.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/schedule/calls.h"
#include "estimator/schedule/gradient_tensor.h"
#include "estimator/schedule/schedule.h"
#include "estimator/schedule/step_writer.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

inline std::span<const GradientEdge> edges_of(const Graph& graph, const AutogradNode& n) {
  return {graph.edges.data() + n.edges.begin, static_cast<std::size_t>(n.edges.end - n.edges.begin)};
}

inline OperandView view_of(const GradientTensor& g, const Shape& shape, DType dtype, BufferId buffer) {
  return {buffer, shape, strides_of(g, shape), g.offset, dtype};
}
inline OperandView view_of(const GradientTensor& g, const Shape& shape, DType dtype) {
  return view_of(g, shape, dtype, g.buffer);
}

class InputBuffers {
  static constexpr PyTorchVersion kAccumulatesInPlace = 200;  // before, input buffers always added out of place

 public:
  /// `first`: whose gradients those of this backward are added to; null: they begin with this one. `kept`: marks the
  /// buffers of gradients that stay. `reached`: see reached_nodes(). `converts_each`: to RunConfig::gradient_type, not
  /// only those that are the first: FSDP2 leaves later ones as they come while its units run backward alone
  /// (_fsdp_param_group.py, _set_unsharded_grad_dtypes).
  InputBuffers(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept,
               const Schedule* first, const std::vector<char>& reached, bool converts_each = false)
      : graph_(graph), run_(run), writer_(writer), kept_(kept), first_(first), converts_each_(converts_each) {
    first_slot_.reserve(graph_.nodes.size());
    std::size_t slots = 0;
    for (const AutogradNode& n : graph_.nodes) {
      first_slot_.push_back(slots);
      slots += static_cast<std::size_t>(n.outputs.end - n.outputs.begin);
    }
    pending_.resize(slots);
    leaf_uses_.assign(graph_.tensors.size(), 0);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (reached[n] != 0)
        for (const GradientEdge& e : edges_of(graph_, graph_.nodes[n]))
          if (graph_.tensor(e.input).producer == kNone) ++leaf_uses_[static_cast<std::size_t>(e.input)];
    leaf_.assign(graph_.tensors.size(), kNone);
  }

  /// What arrived for an output of a node so far: the engine's input buffer.
  GradientTensor& pending(NodeId n, std::int32_t output) { return pending_[slot(n, output)]; }
  BufferId new_gradient(std::int64_t bytes, LayerId layer) {
    return writer_.new_buffer(bytes, Category::activation_gradients, layer);
  }
  /// How many live gradient tensors share the storage.
  int& refs(BufferId b) {
    if (refs_.size() <= static_cast<std::size_t>(b))
      refs_.resize(static_cast<std::size_t>(b) + 1 + refs_.size() / 2, 0);
    return refs_[static_cast<std::size_t>(b)];
  }

  /// The type in which a gradient goes to the tensor: that of the tensor, but where a leaf says otherwise.
  DType type_for(TensorId input) const {
    const Tensor& t = graph_.tensor(input);
    const bool asks = run_.gradient_type && (first_ == nullptr || converts_each_) && t.producer == kNone && t.trained;
    if (run_.norm_gradient_type && t.trained && t.producer == kNone && is_of_norm(t)) return *run_.norm_gradient_type;
    return asks ? *run_.gradient_type : t.dtype;
  }

  /// A gradient of a tensor moves on to who made it, or is the leaf's.
  void flow(TensorId input, const GradientTensor& g, LayerId layer) {
    const Tensor& t = graph_.tensor(input);
    if (t.producer != kNone) {
      accumulate(pending(t.producer, t.output_index), g, input, layer);
      return;
    }
    std::int32_t& leaf = leaf_[static_cast<std::size_t>(input)];
    if (leaf == kNone) {
      leaf = static_cast<std::int32_t>(leaf_gradient_.size());
      leaf_gradient_.emplace_back();
    }
    GradientTensor& waiting = leaf_gradient_[static_cast<std::size_t>(leaf)];
    accumulate(waiting, g, input, layer);
    if (--leaf_uses_[static_cast<std::size_t>(input)] > 0) return;
    keep_gradient(waiting, input);
    arrived_.resize(leaf_gradient_.size(), kNone);
    arrived_[static_cast<std::size_t>(leaf)] = static_cast<std::int32_t>(writer_.schedule().ops.size());
  }

  /// Schedule::gradients and what goes with them, when all nodes have run.
  void collect_gradients() {
    Schedule& s = writer_.schedule();
    std::vector<char> seen(s.buffers.size(), 0);
    std::vector<std::int32_t> parameter_of(graph_.tensors.size(), kNone);
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i) {
      const std::int32_t leaf = leaf_[static_cast<std::size_t>(graph_.parameters[i].tensor)];
      if (leaf == kNone) continue;
      const GradientTensor& g = leaf_gradient_[static_cast<std::size_t>(leaf)];
      parameter_of[static_cast<std::size_t>(graph_.parameters[i].tensor)] =
          static_cast<std::int32_t>(s.gradient_of.size());
      s.with_gradient.push_back(static_cast<std::int32_t>(i));
      s.gradient_of.push_back(g.buffer);
      s.gradient_arrives.push_back(arrived_[static_cast<std::size_t>(leaf)]);
      if (writer_.calls() != nullptr && first_ == nullptr) {
        const Tensor& leaf_tensor = graph_.tensor(graph_.parameters[i].tensor);
        writer_.calls()->gradients.push_back(view_of(g, leaf_tensor.shape, type_for(graph_.parameters[i].tensor)));
      }
      if (!run_.optimizer_in_backward && first_ == nullptr &&
          std::exchange(seen[static_cast<std::size_t>(g.buffer)], 1) == 0)
        s.gradients.push_back(g.buffer);
    }
    for (Schedule::Update& u : s.updates) u.parameter = parameter_of[static_cast<std::size_t>(u.parameter)];
  }

 private:
  std::size_t slot(NodeId n, std::int32_t output) const {
    return first_slot_[static_cast<std::size_t>(n)] + static_cast<std::size_t>(output);
  }
  bool is_of_norm(const Tensor& t) const {
    const LayerId layer = graph_.buffers[index(t.buffer)].layer;
    return layer != kNone && is_norm(tensor_style_of(graph_.layers[index(layer)].name, true));
  }
  // input_buffer.cpp, can_accumulate_inplace: in place when the buffered gradient is dense and nobody else refers to
  // its storage. A view refers to its base.
  void accumulate(GradientTensor& buffered, const GradientTensor& g, TensorId input, LayerId layer) {
    const Tensor& t = graph_.tensor(input);
    const DType type = type_for(input);
    if (buffered.buffer == kNone) {
      buffered = g;
      return;
    }
    const bool alone = !buffered.view && refs(buffered.buffer) == 1;
    const bool shared =
        run_.tensor_ranks > 1 && (t.trained || t.distributed);  // DTensors, which are added out of place
    const bool in_place = run_.pytorch >= kAccumulatesInPlace && alone && dense(buffered, t.shape) && !shared;
    const BufferId summed = shared ? sum_over_ranks(g, t, type, layer) : kNone;
    sums_.emplace_back(Elementwise{t.shape.elements(), 1});
    writer_.begin(in_place ? Operator::add_ : Operator::add, layer, Phase::backward, &sums_.back());
    writer_.read(buffered.buffer);
    writer_.read(g.buffer);
    if (summed != kNone) writer_.read(summed);
    --refs(g.buffer);
    if (in_place) {
      if (writer_.calls() != nullptr) writer_.record({view_of(buffered, t.shape, type), view_of(g, t.shape, type)}, {});
      return;
    }
    --refs(buffered.buffer);
    GradientTensor sum{.buffer = new_gradient(t.shape.elements() * size_of(type), layer)};
    if (!buffered.contiguous || !g.contiguous) {
      const std::array<StridedShape, 2> operands{StridedShape{t.shape, strides_of(buffered, t.shape)},
                                                 StridedShape{t.shape, strides_of(g, t.shape)}};
      lay_out(sum, t.shape, pointwise_strides(t.shape, operands));
    }
    if (writer_.calls() != nullptr)
      writer_.record({view_of(buffered, t.shape, type), view_of(g, t.shape, type)}, {view_of(sum, t.shape, type)});
    buffered = sum;
    writer_.allocate(buffered.buffer);
    refs(buffered.buffer) = 1;
  }

  // A Partial gradient of the whole parameter becomes one of the rank's part before it is added to another one.
  BufferId sum_over_ranks(const GradientTensor& g, const Tensor& t, DType type, LayerId layer) {
    const std::int64_t bytes = t.shape.elements() * size_of(type);
    if (writer_.schedule().buffers[index(g.buffer)].bytes <= bytes) return kNone;
    sums_.emplace_back(Marker{});
    writer_.begin(Operator::all_reduce, layer, Phase::backward, &sums_.back());
    writer_.read(g.buffer);
    const BufferId summed = new_gradient(bytes, layer);
    writer_.allocate(summed);
    return summed;
  }

  // accumulate_grad.h: a gradient of the parameter's layout that nobody else holds is taken as it is, else cloned. A
  // parameter that has one already gets the new one added in place.
  void keep_gradient(GradientTensor& g, TensorId input) {
    const Tensor& leaf = graph_.tensor(input);
    const BufferId arrived = g.buffer;
    const LayerId layer = graph_.buffers[static_cast<std::size_t>(leaf.buffer)].layer;
    const bool of_forward = std::ranges::find(graph_.leaves, input) != graph_.leaves.end();  // it goes with the loss
    if (first_ != nullptr && !of_forward) {
      sums_.emplace_back(Elementwise{leaf.shape.elements(), 1});
      writer_.begin(Operator::add_, layer, Phase::backward, &sums_.back());
      writer_.read(g.buffer);
      if (const OperandView* there = gradient_there(input))
        writer_.record({*there, view_of(g, leaf.shape, leaf.dtype)}, {});
      return;
    }
    if (!obeys_layout(g, leaf) || (!g.view && refs(g.buffer) > 1)) {
      sums_.emplace_back(Copy{leaf.shape.elements()});
      writer_.begin(Operator::clone, layer, Phase::backward, &sums_.back());
      writer_.read(g.buffer);
      const GradientTensor of = g;
      g = {.buffer = new_gradient(leaf.shape.elements() * size_of(type_for(input)), kNone)};
      lay_out(g, leaf.shape, leaf.strides);
      writer_.allocate(g.buffer);
      if (writer_.calls() != nullptr)
        writer_.record({view_of(of, leaf.shape, type_for(input))}, {view_of(g, leaf.shape, type_for(input))});
      refs(g.buffer) = 1;
      --refs(arrived);  // who else was given it may be alone with it now
    }
    if (!of_forward) take_from_forward(g, leaf);
    if (of_forward) {
      writer_.schedule().beside_results.push_back(g.buffer);
    } else {
      Buffer& b = writer_.schedule().buffers[static_cast<std::size_t>(g.buffer)];
      b.category = Category::gradients;
      b.layer = layer;
    }
    if (run_.optimizer_in_backward && leaf.trained) return update(input, g.buffer, arrived);
    keep(g.buffer);
  }

  // A gradient that was written over what the forward saved. The next forward makes that anew.
  void take_from_forward(GradientTensor& g, const Tensor& leaf) {
    Schedule& s = writer_.schedule();
    if (index(g.buffer) >= graph_.buffers.size() || (run_.optimizer_in_backward && leaf.trained)) return;
    const BufferId gradient = new_gradient(s.buffers[index(g.buffer)].bytes, kNone);
    s.taken.push_back({static_cast<std::int32_t>(s.ops.size()) - 1, gradient, g.buffer});
    keep(g.buffer);
    g.buffer = gradient;
  }

  void keep(BufferId b) {
    if (kept_.size() <= index(b)) kept_.resize(index(b) + 1, 0);
    kept_[index(b)] = 1;
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
    s.updates.push_back({static_cast<std::int32_t>(s.ops.size()), parameter});
    writer_.mark("Optimizer.step", s.buffers[static_cast<std::size_t>(gradient)].layer, Phase::backward);
    writer_.read(gradient);
    writer_.read(arrived);
  }

  const Graph& graph_;
  const RunConfig& run_;
  StepWriter& writer_;
  std::vector<char>& kept_;
  const Schedule* first_;
  bool converts_each_;
  std::vector<std::size_t> first_slot_;
  std::vector<GradientTensor> pending_;        // by node and output
  std::vector<std::int32_t> leaf_;             // by tensor: its place in leaf_gradient_
  std::vector<std::int32_t> arrived_;          // of leaf_gradient_: the number of steps until then
  std::vector<GradientTensor> leaf_gradient_;  // of tensors that no node made
  std::vector<std::int32_t> leaf_uses_;
  std::vector<int> refs_;
  std::deque<Primitive>& sums_ = writer_.schedule().sums;
};

}  // namespace gpuplan
