// Forward: a contiguous copy of a batch-first input, the result, the last states, the workspace, and in training the
// reserve, which is kept for backward with the input, the first states, the result and the weights. Backward: zeros
// for the last states' gradients unless those are used, the copy again, the gradients of the input and the states, a
// workspace; then for the weights the copy once more, one storage for all their gradients, of which they are views,
// and a workspace. Autocast casts to fp16 whatever its type is, the weights into one new storage
// (aten/src/ATen/cudnn/AutocastRNN.cpp).
#include "estimator/aten/recurrent.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

using cudnn_rnn::Stack;

/// One call: what it computes on, and in which type.
struct Call {
  Recurrent r;
  Recurrence what;
  DType dtype = DType::fp32;
  TensorId x = kNone;             // [steps, batch, features], or with batch_first [batch, steps, features]
  TensorId first = kNone;         // x with time first, where it has to be copied
  std::vector<TensorId> weights;  // as autograd sees them
  std::vector<TensorId> states;
  bool packs_weights = false;  // they lie apart from each other
  std::int64_t weight_values() const { return weight_space_bytes(r.stack) / r.stack.value_bytes; }
};

std::int64_t multiply_adds(const Stack& s, std::int64_t tokens) {
  std::int64_t weights = 0;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    const std::int64_t width = layer == 0 ? s.input : s.directions() * s.projection;
    const std::int64_t rows = checked_mul(cudnn_rnn::gates(s.cell) * s.directions(), s.hidden);
    weights = checked_add(weights, checked_mul(rows, checked_add(width, s.projection)));
    if (s.projects()) weights = checked_add(weights, checked_mul(s.directions() * s.projection, s.hidden));
  }
  return checked_mul(tokens, weights);
}

// The rules of cudnn_rnn.h have no sum beyond this one, where sizes are within 64 bits.
void check_sizes(const Stack& s, std::int64_t tokens, std::int64_t batch) {
  constexpr std::int64_t kFactors = 512;  // bytes a value, gates, directions, copies
  const std::int64_t features = checked_add(s.input, s.hidden);
  const std::int64_t vectors = checked_add(checked_add(tokens, batch), features);
  (void)checked_mul(checked_mul(kFactors, s.layers), checked_mul(features, vectors));
}

// [a, b, features], contiguous, seen as [b, a, features].
Strides swapped(const Shape& shape) {
  const Strides of = contiguous_strides({shape[1], shape[0], shape[2]});
  Strides strides = of;
  strides.set(0, of[1]);
  strides.set(1, of[0]);
  return strides;
}

Shape time_first(const Call& c, const Shape& shape) {
  return c.r.batch_first ? Shape{shape[1], shape[0], shape[2]} : shape;
}

// x.transpose(0, 1), which has no node of its own.
TensorId time_first(LayerBuilder& b, TensorId x) {
  const Shape in = b.shape(x);
  const Strides of = b.strides(x);
  Strides strides = of;
  strides.set(0, of[1]);
  strides.set(1, of[0]);
  return b.alias(x, {in[1], in[0], in[2]}, strides);
}

// A tensor of x's or y's layout that cuDNN made contiguous with time first.
OutputSpec made_by_cudnn(const Call& c, const Shape& shape) {
  if (!c.r.batch_first) return {shape, c.dtype};
  return {.shape = shape, .dtype = c.dtype, .placing = Placing::given, .strides = swapped(shape)};
}

// x.transpose(0, 1).is_contiguous()
bool is_dense(const LayerBuilder& b, const Call& c) {
  if (!c.r.batch_first) return b.contiguous(c.x);
  const Strides of = b.strides(c.x);
  Strides strides = of;
  strides.set(0, of[1]);
  strides.set(1, of[0]);
  return is_contiguous(time_first(c, b.shape(c.x)), strides);
}

// Copies into one new storage, which autograd sees.
void pack_for_autocast(LayerBuilder& b, Call& c) {
  const std::int64_t values = c.weight_values();
  const TensorId whole = b.emit(Operator::zeros, Fill{values}, {}, {values}, c.dtype);
  const std::vector<std::int64_t> offsets = weight_offsets(c.r);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    TensorId& w = c.weights[i];
    const DType from = b.dtype(w);
    const TensorId piece = b.alias(whole, b.shape(w), contiguous_strides(b.shape(w)), offsets[i]);
    const TensorId copy = b.emit_in_place(Operator::copy_, Copy{b.elements(w)}, {piece, w});
    if (NodeBuilder node = b.node("CopyBackwards", copy, {w})) node.give(w, node.cast(node.grad(), from));
    w = copy;
  }
}

void apply_autocast(LayerBuilder& b, Call& c) {
  if (!b.autocast() || c.dtype == DType::fp64) return;
  c.dtype = DType::fp16;
  if (b.dtype(c.weights.front()) != c.dtype) {
    pack_for_autocast(b, c);
    c.packs_weights = false;
  }
  for (std::size_t i = c.states.size(); i-- > 0;) c.states[i] = b.cast(c.states[i], c.dtype);
  c.x = b.cast(c.x, c.dtype);
}

double dropout_of(const Call& c) { return c.r.stack.dropout ? c.r.dropout : 0; }

// The gradients are views of one storage. Without biases cuDNN's places are not PyTorch's weights one by one, and each
// gradient is copied out of it.
void give_weights(const LayerBuilder& b, NodeBuilder& node, const Call& c, Recurrence what,
                  std::vector<Operand> reads) {
  const std::int64_t values = c.weight_values();
  const Operand all = node.run(Operator::zeros, Fill{values}, std::span<const Operand>{}, {values}, c.dtype);
  reads.push_back(all);
  std::vector<OutputSpec> copies;
  if (!c.r.bias)
    for (const TensorId w : c.weights) copies.push_back({b.shape(w), c.dtype});
  what.results_before = 0;
  what.results_after = static_cast<int>(copies.size());
  const std::vector<Operand> copied = node.run_many(Operator::_cudnn_rnn_backward_weight, what, reads, copies);
  node.attributes({{Attribute::dropout, dropout_of(c)}});
  const std::vector<std::int64_t> offsets = weight_offsets(c.r);
  for (std::size_t i = 0; i < c.weights.size(); ++i)
    if (node.needs(c.weights[i]))
      node.give(c.weights[i], c.r.bias ? node.piece(all, b.shape(c.weights[i]), offsets[i]) : copied[i]);
}

void backward(const LayerBuilder& b, NodeBuilder& node, const Call& c, std::span<const TensorId> kept) {
  std::vector<Operand> incoming;
  for (std::size_t i = 0; i <= c.states.size(); ++i) incoming.push_back(node.grad(static_cast<int>(i)));
  node.run_many(Operator::_cudnn_rnn_backward, Marker{}, incoming, {});  // zeros for those that did not arrive
  const Shape in = b.shape(c.x), dense_in = time_first(c, in);
  const bool dense = is_dense(b, c);
  const auto dense_input = [&]() -> Operand {
    return dense ? c.x : node.run(Operator::clone, Copy{in.elements()}, {c.first}, dense_in, c.dtype);
  };

  constexpr std::array kSwap{1, 0, 2};
  std::vector<Operand> reads{dense_input()};
  reads.push_back(node.contiguous(c.r.batch_first ? node.permute(incoming.front(), kSwap) : incoming.front()));
  reads.insert(reads.end(), incoming.begin() + 1, incoming.end());
  reads.insert(reads.end(), kept.begin(), kept.end());
  std::vector<OutputSpec> made{made_by_cudnn(c, in)};
  for (const TensorId s : c.states) made.push_back({b.shape(s), c.dtype});
  Recurrence what = c.what;
  what.backward = true;
  what.results_before = static_cast<int>(made.size());
  const std::vector<Operand> gradients = node.run_many(Operator::_cudnn_rnn_backward_input, what, reads, made);
  node.attributes({{Attribute::dropout, dropout_of(c)}});
  if (node.needs(c.x)) node.give(c.x, gradients.front());

  if (std::ranges::any_of(c.weights, [&](TensorId w) { return node.needs(w); })) {
    std::vector<Operand> again{dense_input()};
    again.insert(again.end(), kept.begin(), kept.end());
    give_weights(b, node, c, what, again);
  }
  node.run_many(Operator::locals_die, Marker{}, gradients, {});
}

}  // namespace

std::vector<std::int64_t> weight_offsets(const Recurrent& r) {
  const Stack& s = r.stack;
  const std::int64_t gates = cudnn_rnn::gates(s.cell);
  std::vector<std::int64_t> bytes;
  for (std::int64_t layer = 0; layer < s.layers * s.directions(); ++layer) {
    const cudnn_rnn::WeightPlace input = weight_place(s, layer, 0), state = weight_place(s, layer, gates);
    bytes.insert(bytes.end(), {input.matrix_offset, state.matrix_offset});
    if (r.bias) bytes.insert(bytes.end(), {input.bias_offset, state.bias_offset});
    if (s.projects()) bytes.push_back(weight_place(s, layer, 2 * gates).matrix_offset);
  }
  for (std::int64_t& offset : bytes) offset /= s.value_bytes;
  return bytes;
}

std::vector<TensorId> recurrent(LayerBuilder& b, const Recurrent& r, TensorId x, std::span<const TensorId> weights,
                                std::span<const TensorId> states) {
  Call c{.r = r, .what = {}, .dtype = b.dtype(x), .x = x, .weights = {}, .states = {}};
  c.weights.assign(weights.begin(), weights.end());
  c.states.assign(states.begin(), states.end());
  c.packs_weights = !flattens(b.dtype(weights.front()));
  const Shape in = time_first(c, b.shape(x));
  const std::int64_t steps = in[0], batch = in[1], tokens = checked_mul(steps, batch);
  check_sizes(r.stack, tokens, batch);
  apply_autocast(b, c);
  c.r.stack.value_bytes = size_of(c.dtype);
  c.r.stack.dropout = r.stack.dropout && b.training();
  c.what = {.stack = c.r.stack,
            .steps = steps,
            .batch = batch,
            .macs = multiply_adds(r.stack, tokens),
            .training = b.training(),
            .dtype = c.dtype};

  const bool copies = !is_dense(b, c);
  if (copies) c.first = c.r.batch_first ? time_first(b, c.x) : c.x;
  const TensorId dense = copies ? b.emit(Operator::clone, Copy{in.elements()}, {c.first}, in, c.dtype) : c.x;
  std::vector<TensorId> reads{dense};
  reads.insert(reads.end(), c.weights.begin(), c.weights.end());
  reads.insert(reads.end(), c.states.begin(), c.states.end());
  Shape result = b.shape(x);
  result.set(2, r.stack.directions() * r.stack.projection);
  std::vector<OutputSpec> made{made_by_cudnn(c, result)};
  for (const TensorId s : c.states) made.push_back({b.shape(s), c.dtype});
  const std::size_t results = made.size();
  if (c.packs_weights) made.push_back({{c.weight_values()}, c.dtype});
  Recurrence what = c.what;
  what.results_before = static_cast<int>(made.size());
  if (b.training()) made.push_back({{reserve_bytes(c.r.stack, {batch, steps, tokens})}, DType::boolean});
  std::vector<TensorId> out = b.emit_many(Operator::_cudnn_rnn, what, reads, made);
  b.attributes({{Attribute::dropout, dropout_of(c)}});

  std::vector<TensorId> inputs{c.x};
  inputs.insert(inputs.end(), c.weights.begin(), c.weights.end());
  if (NodeBuilder node = b.node("CudnnRnnBackward0", std::span(out.data(), results), inputs)) {
    std::vector<TensorId> kept{out.front()};
    kept.insert(kept.end(), c.states.begin(), c.states.end());
    kept.insert(kept.end(), out.begin() + static_cast<std::ptrdiff_t>(results), out.end());
    if (!c.packs_weights) kept.push_back(c.weights.front());
    backward(b, node, c, kept);
  }
  b.hold(states);  // names of the module's forward
  out.resize(results);
  return out;
}

}  // namespace gpuplan::aten
