#include "estimator/graph/repeated_blocks.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/graph/same_body.h"

namespace gpuplan {
namespace {

// Few kinds of blocks take turns in a model; of one whose blocks are all different nothing is repeated.
constexpr std::size_t kMostKnown = 16;
constexpr std::size_t kMostInputs = 16;  // compared pair by pair

template <class T>
std::span<const T> part(const std::vector<T>& v, std::int32_t begin, std::int32_t end) {
  return std::span(v).subspan(index(begin), index(end - begin));
}

// Copies a part of a vector to its end; returns the copies.
template <class T>
std::span<T> append_part(std::vector<T>& v, std::int32_t begin, std::int32_t end) {
  if (begin == end) return {};
  const std::vector<T> copies(v.begin() + begin, v.begin() + end);  // insert() takes nothing from the vector itself
  v.insert(v.end(), copies.begin(), copies.end());
  return std::span(v).last(copies.size());
}

Range moved(Range r, std::int32_t by) { return {r.begin + by, r.end + by}; }

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype && a.requires_grad == b.requires_grad &&
         a.trained == b.trained && a.of_trained == b.of_trained && a.offset == b.offset;
}

template <class T>
std::size_t place_in(const std::vector<T>& v, T what) {
  return index(std::ranges::find(v, what) - v.begin());
}

}  // namespace

// How the ids and names of a call become those of its repetition.
struct RepeatedBlocks::Ids {
  const Known& of;
  const BlockCall& call;
  std::vector<BufferId> buffers;  // of the inputs
  Extent by;                      // how much further everything lies

  TensorId tensor(TensorId t) const {
    if (t >= of.begin.tensors) return t + by.tensors;
    return t < 0 ? t : call.inputs[place_in(of.inputs, t)];  // below 0: none; of operands: absent, a value of the node
  }
  BufferId buffer(BufferId b) const {
    return b >= of.begin.buffers ? b + by.buffers : buffers[place_in(of.buffers, b)];
  }
  // A frame that returns before the block's first layer belongs to the layer before.
  LayerId layer(LayerId l) const { return l == kNone ? l : l + by.layers; }
  std::string path(const std::string& name) const { return call.path + name.substr(of.path.size()); }
};

RepeatedBlocks::Extent RepeatedBlocks::extent(std::size_t looks) const {
  const Graph& g = graph_;
  Extent e;
  e.buffers = size_of_vector(g.buffers);
  e.tensors = size_of_vector(g.tensors);
  e.operands = size_of_vector(g.operands);
  e.attributes = size_of_vector(g.attributes);
  e.forward_ops = size_of_vector(g.forward_ops);
  e.backward_ops = size_of_vector(g.backward_ops);
  e.saved = size_of_vector(g.saved);
  e.locals = size_of_vector(g.locals);
  e.strides = size_of_vector(g.strides);
  e.edges = size_of_vector(g.edges);
  e.nodes = size_of_vector(g.nodes);
  e.layers = size_of_vector(g.layers);
  e.parameters = size_of_vector(g.parameters);
  e.named_buffers = size_of_vector(g.named_buffers);
  e.model_storage = size_of_vector(g.model_storage);
  e.initial_values = size_of_vector(g.initial_values);
  e.checkpoints = size_of_vector(g.checkpoints);
  e.casts = size_of_vector(g.autocast_casts);
  e.orders = size_of_vector(orders_);
  e.others = g.flat_weights.size() + g.initialization.size() + g.adapters.size() + g.inputs.size() +
             g.kept_with_output.size() + g.leaves.size() + g.replaced_buffers.size();
  e.looks = looks;
  return e;
}

// --- remembering ------------------------------------------------------------------------------------------------

// A weight that is handed in may be in autocast's cache already, or be when the next block is given it.
bool RepeatedBlocks::may_repeat(const BlockCall& call) const {
  const auto is_value = [&](TensorId t) { return t != kNone && !graph_.tensor(t).trained; };
  return !call.path.empty() && !call.inputs.empty() && call.inputs.size() <= kMostInputs &&
         std::ranges::all_of(call.inputs, is_value);
}

// An id then stands for one input only.
bool RepeatedBlocks::have_own_storages(std::span<const TensorId> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (graph_.tensor(inputs[k]).buffer == graph_.tensor(inputs[i]).buffer) return false;
  return true;
}

void RepeatedBlocks::remember(const BlockCall& call, const Extent& before, std::size_t looks, TensorId first,
                              std::span<const TensorId> several) {
  const Extent now = extent(looks);
  if (now.others != before.others || now.looks != before.looks || !may_repeat(call) || goes_by_more(call.block.body))
    return;
  Known& k = place_to_remember();
  k.block = &call.block;
  k.path = call.path;
  k.inputs.assign(call.inputs.begin(), call.inputs.end());
  k.buffers.clear();
  for (const TensorId t : call.inputs) k.buffers.push_back(graph_.tensor(t).buffer);
  k.frozen = call.frozen;
  k.checkpointed = call.checkpointed;
  k.in_checkpoint = call.in_checkpoint;
  k.reentrant = call.reentrant;
  k.begin = before;
  k.end = now;
  k.storage.assign(graph_.model_storage.begin() + before.model_storage, graph_.model_storage.end());
  k.result.first = first;
  k.result.several.assign(several.begin(), several.end());
  k.checked = false;
  k.replaced.clear();
  const auto note = [&](TensorId t) {
    if (const TensorId by = graph_.tensor(t).replaced_by; by != kNone) k.replaced.emplace_back(t, by);
  };
  std::ranges::for_each(call.inputs, note);
  for (TensorId t = before.tensors; t < now.tensors; ++t) note(t);
}

// That of the oldest, once there are many.
RepeatedBlocks::Known& RepeatedBlocks::place_to_remember() {
  if (known_.size() < kMostKnown) return known_.emplace_back();
  Known& oldest = known_[oldest_];
  oldest_ = (oldest_ + 1) % kMostKnown;
  return oldest;
}

bool RepeatedBlocks::refers_to_own(const Known& known) const {
  const Graph& g = graph_;
  const Extent &b = known.begin, &e = known.end;
  const auto own = [&](TensorId t) {
    return t < 0 || t >= b.tensors || place_in(known.inputs, t) < known.inputs.size();
  };
  const auto own_layer = [&](LayerId l) { return l == kNone || l >= b.layers - 1; };
  const auto input_of = [](const GradientEdge& edge) { return edge.input; };
  const auto own_tensor = [&](const Tensor& t) {
    return (t.buffer >= b.buffers || place_in(known.buffers, t.buffer) < known.buffers.size()) &&
           (t.producer == kNone || t.producer >= b.nodes);
  };
  const auto own_op = [&](const Op& op) { return own_layer(op.layer) && op.layer != kNone; };
  return std::ranges::all_of(part(g.operands, b.operands, e.operands), own) &&
         std::ranges::all_of(part(g.saved, b.saved, e.saved), own) &&
         std::ranges::all_of(part(g.edges, b.edges, e.edges), own, input_of) &&
         std::ranges::all_of(part(g.autocast_casts, b.casts, e.casts), own) &&
         std::ranges::all_of(known.storage, own) && std::ranges::all_of(known.result.several, own) &&
         own(known.result.first) &&
         std::ranges::all_of(known.replaced, [&](const auto& pair) { return pair.second >= b.tensors; }) &&
         std::ranges::all_of(part(g.tensors, b.tensors, e.tensors), own_tensor) &&
         std::ranges::all_of(part(g.forward_ops, b.forward_ops, e.forward_ops), own_op) &&
         std::ranges::all_of(part(g.buffers, b.buffers, e.buffers), own_layer, &Buffer::layer) &&
         std::ranges::all_of(part(g.layers, b.layers, e.layers),
                             [&](const Layer& l) { return l.name.starts_with(known.path); });
}

// --- repeating --------------------------------------------------------------------------------------------------

bool RepeatedBlocks::alike(const Known& known, const BlockCall& call) const {
  return known.frozen == call.frozen && known.checkpointed == call.checkpointed &&
         known.in_checkpoint == call.in_checkpoint && known.reentrant == call.reentrant &&
         known.inputs.size() == call.inputs.size() &&
         std::ranges::equal(known.inputs, call.inputs,
                            [&](TensorId a, TensorId b) { return same_tensor(graph_.tensor(a), graph_.tensor(b)); }) &&
         same_block(*known.block, call.block);
}

const RepeatedBlocks::Result* RepeatedBlocks::repeat(const BlockCall& call, std::size_t looks) {
  if (known_.empty() || !may_repeat(call)) return nullptr;
  const auto found = std::ranges::find_if(known_, [&](const Known& k) { return alike(k, call); });
  if (found == known_.end()) return nullptr;
  Known& of = *found;
  const Extent now = extent(looks);
  // Buffers may have got another category since.
  if (of.end.others != now.others || of.end.looks != now.looks) return nullptr;
  const auto is_latest = [&](TensorId t) { return graph_.tensor(t).replaced_by == kNone; };
  if (!have_own_storages(call.inputs) || !std::ranges::all_of(call.inputs, is_latest)) return nullptr;
  if (!of.checked && !(have_own_storages(of.inputs) && refers_to_own(of))) {
    known_.erase(found);
    oldest_ = 0;
    return nullptr;
  }
  of.checked = true;
  Ids ids{of, call, {}, now};
  for (const TensorId t : call.inputs) ids.buffers.push_back(graph_.tensor(t).buffer);
  ids.by.buffers -= of.begin.buffers;
  ids.by.tensors -= of.begin.tensors;
  ids.by.operands -= of.begin.operands;
  ids.by.attributes -= of.begin.attributes;
  ids.by.forward_ops -= of.begin.forward_ops;
  ids.by.backward_ops -= of.begin.backward_ops;
  ids.by.saved -= of.begin.saved;
  ids.by.locals -= of.begin.locals;
  ids.by.strides -= of.begin.strides;
  ids.by.edges -= of.begin.edges;
  ids.by.nodes -= of.begin.nodes;
  ids.by.layers -= of.begin.layers;
  ids.by.parameters -= of.begin.parameters;
  append_tensors(ids);
  append_operations(ids);
  append_backward(ids);
  append_modules(ids);
  result_.first = ids.tensor(of.result.first);
  result_.several.clear();
  for (const TensorId t : of.result.several) result_.several.push_back(ids.tensor(t));
  result_.casts = {now.casts, size_of_vector(graph_.autocast_casts)};
  return &result_;
}

void RepeatedBlocks::append_tensors(const Ids& ids) {
  Graph& g = graph_;
  const Extent &b = ids.of.begin, &e = ids.of.end;
  for (Buffer& buffer : append_part(g.buffers, b.buffers, e.buffers)) buffer.layer = ids.layer(buffer.layer);
  for (Tensor& t : append_part(g.tensors, b.tensors, e.tensors)) {
    t.buffer = ids.buffer(t.buffer);
    if (t.producer != kNone) t.producer += ids.by.nodes;
    t.replaced_by = kNone;  // maybe after the block
  }
  for (const auto& [t, by] : ids.of.replaced) g.tensor(ids.tensor(t)).replaced_by = ids.tensor(by);
  for (TensorId& t : append_part(g.autocast_casts, b.casts, e.casts)) t = ids.tensor(t);
}

void RepeatedBlocks::append_operations(const Ids& ids) {
  Graph& g = graph_;
  const Extent &b = ids.of.begin, &e = ids.of.end;
  g.require_operands(index(e.operands - b.operands));
  for (std::int32_t& o : append_part(g.operands, b.operands, e.operands)) o = ids.tensor(o);
  append_part(g.attributes, b.attributes, e.attributes);
  const auto adapt = [&](std::span<Op> ops) {
    for (Op& op : ops) {
      op.layer = ids.layer(op.layer);
      op.reads = moved(op.reads, ids.by.operands);
      op.writes = moved(op.writes, ids.by.operands);
      if (op.extra.begin != op.extra.end) op.extra = moved(op.extra, ids.by.operands);
      if (op.attributes.begin != op.attributes.end) op.attributes = moved(op.attributes, ids.by.attributes);
    }
  };
  adapt(append_part(g.forward_ops, b.forward_ops, e.forward_ops));
  adapt(append_part(g.backward_ops, b.backward_ops, e.backward_ops));
  for (Checkpoint& c : append_part(g.checkpoints, b.checkpoints, e.checkpoints)) {
    c.ops = moved(c.ops, ids.by.forward_ops);
    c.nodes = moved(c.nodes, ids.by.nodes);
    c.given = moved(c.given, ids.by.operands);
    if (c.reentrant) c.returned = moved(c.returned, ids.by.operands);
  }
}

void RepeatedBlocks::append_backward(const Ids& ids) {
  Graph& g = graph_;
  const Extent &b = ids.of.begin, &e = ids.of.end;
  for (TensorId& t : append_part(g.saved, b.saved, e.saved)) t = ids.tensor(t);
  append_part(g.strides, b.strides, e.strides);
  for (BackwardValue& l : append_part(g.locals, b.locals, e.locals))
    if (l.strides != kNone) l.strides += ids.by.strides;
  for (GradientEdge& edge : append_part(g.edges, b.edges, e.edges)) edge.input = ids.tensor(edge.input);
  for (AutogradNode& n : append_part(g.nodes, b.nodes, e.nodes)) {
    n.layer = ids.layer(n.layer);
    n.op += ids.by.forward_ops;
    n.outputs = moved(n.outputs, ids.by.operands);
    n.saved = moved(n.saved, ids.by.saved);
    n.ops = moved(n.ops, ids.by.backward_ops);
    n.locals = moved(n.locals, ids.by.locals);
    n.edges = moved(n.edges, ids.by.edges);
  }
}

void RepeatedBlocks::append_modules(const Ids& ids) {
  Graph& g = graph_;
  const Extent &b = ids.of.begin, &e = ids.of.end;
  for (Layer& l : append_part(g.layers, b.layers, e.layers)) {
    l.name = ids.path(l.name);
    l.inputs = moved(l.inputs, ids.by.operands);
    l.output = ids.tensor(l.output);
    l.ops = moved(l.ops, ids.by.forward_ops);
  }
  for (ParameterTensor& p : append_part(g.parameters, b.parameters, e.parameters)) {
    p.tensor = ids.tensor(p.tensor);
    p.layer = ids.layer(p.layer);
  }
  for (BufferTensor& buffer : append_part(g.named_buffers, b.named_buffers, e.named_buffers)) {
    buffer.tensor = ids.tensor(buffer.tensor);
    buffer.layer = ids.layer(buffer.layer);
  }
  for (const TensorId t : ids.of.storage) g.model_storage.push_back(ids.tensor(t));
  for (auto& value : append_part(g.initial_values, b.initial_values, e.initial_values))
    value.first = ids.tensor(value.first);
  for (ConstructionOrder& o : append_part(orders_, b.orders, e.orders)) {
    o.path = ids.path(o.path);
    o.parameters = moved(o.parameters, ids.by.parameters);
  }
}

}  // namespace gpuplan
