#include "estimator/aten/attention_math.h"

#include <cmath>

#include "estimator/aten/linear.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

constexpr PyTorchVersion kComputesInFp32 = 205;  // half precision, and rows that are masked out whole give zeros

// [batch, heads, ...]: each head `times` times, in a contiguous copy.
TensorId repeat_heads(LayerBuilder& b, TensorId x, std::int64_t times) {
  const Shape in = b.shape(x);
  const TensorId wide = expand(b, unsqueeze(b, x, 2), {in[0], in[1], times, in[2], in[3]});
  return flatten(b, contiguous(b, wide), 1, 2);
}

TensorId causal_mask(LayerBuilder& b, std::int64_t rows, std::int64_t columns, DType dtype) {
  const Shape shape{rows, columns};
  const TensorId ones = b.emit(Operator::ones, Fill{shape.elements()}, {}, shape, DType::boolean);
  const TensorId lower = b.emit(Operator::tril, Elementwise{shape.elements()}, {ones}, shape, DType::boolean);
  return additive_mask(b, lower, dtype);
}

// softmax whose rows that are all -inf become 0: a boolean tensor of the scores, one of the rows and a scalar on top.
TensorId safe_softmax(LayerBuilder& b, TensorId scores) {
  const Shape shape = b.shape(scores);
  const DType dtype = b.dtype(scores);
  std::int64_t rows = shape.elements(0, shape.rank() - 1);
  ScratchProgram program;
  ScratchWriter w(program);
  w.result();
  for (const std::int64_t bytes : {shape.elements(), rows, size_of(dtype)}) w.allocate(bytes);
  w.release_all();
  const TensorId y =
      b.emit(Operator::_safe_softmax, opaque_kernel(program, 5 * shape.elements()), {scores}, shape, dtype);
  const auto last = static_cast<double>(shape.rank() - 1);
  b.attributes({{Attribute::dim, last}});
  if (NodeBuilder node = b.node("SafeSoftmaxBackward0", y, {scores})) {
    const Softmax backward{.elements = shape.elements(), .backward = true, .product_scratch = true, .dtype = dtype};
    node.give(scores, node.run(Operator::_softmax_backward_data, backward, {node.grad(), y}, shape, dtype));
    node.attributes({{Attribute::dim, last}});
  }
  return y;
}

// Query and key are each scaled by the root of 1 / sqrt(size).
double root_of_scale(const LayerBuilder& b, TensorId q) { return std::pow(static_cast<double>(b.shape(q)[-1]), -0.25); }

TensorId scaled_scores(LayerBuilder& b, TensorId q, TensorId k) {
  const TensorId scaled = binary_number(b, Binary::mul, k, root_of_scale(b, q));
  const TensorId scores = matmul_as_given(b, q, transpose(b, scaled, -2, -1));
  b.hold({scaled});  // a temporary of the statement
  return scores;
}

}  // namespace

TensorId math_attention(LayerBuilder& b, const AttentionArguments& a) {
  const DType given = b.dtype(a.query);
  const bool half = given == DType::fp16 || given == DType::bf16;
  const bool wide = half && !b.before(kComputesInFp32);
  const DType dtype = wide ? DType::fp32 : given;
  TensorId mask = a.mask;
  if (mask != kNone && b.dtype(mask) == DType::boolean) mask = additive_mask(b, mask, given);
  const TensorId q = b.cast(a.query, dtype);
  TensorId k = b.cast(a.key, dtype);
  TensorId v = b.cast(a.value, dtype);
  std::vector<TensorId> locals{q, k, v};
  const TensorId scaled = binary_number(b, Binary::mul, q, root_of_scale(b, q));
  if (a.causal) mask = causal_mask(b, b.shape(q)[-2], b.shape(k)[-2], dtype);
  if (a.grouped && b.shape(q).rank() == 4 && b.shape(q)[1] != b.shape(k)[1]) {
    const std::int64_t times = b.shape(q)[1] / b.shape(k)[1];
    k = repeat_heads(b, k, times);
    v = repeat_heads(b, v, times);
    locals.insert(locals.end(), {k, v});
  }
  TensorId scores = scaled_scores(b, scaled, k);
  if (mask != kNone) scores = binary(b, Binary::add, scores, mask, true);
  TensorId weights = b.before(kComputesInFp32) ? softmax(b, scores, -1, dtype) : safe_softmax(b, scores);
  weights = dropout(b, weights, a.dropout, a.dropout > 0);
  if (wide) locals.push_back(b.cast(weights, given));  // returned beside the result; the caller drops it
  const TensorId y = b.cast(matmul_as_given(b, weights, v), given);
  locals.insert(locals.end(), {scaled, weights});
  if (mask != kNone) locals.push_back(mask);
  b.hold(locals);
  return y;
}

}  // namespace gpuplan::aten
