#include "estimator/aten/multihead_attention.h"

#include <array>
#include <cmath>

#include "estimator/aten/attention.h"
#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

// Before, query, key and value lived until the function returned. 2.15 lets go of them, 2.8 does not.
constexpr PyTorchVersion kDropsProjections = 209;
constexpr PyTorchVersion kFusedKernels = 200;  // scaled_dot_product_attention, and a fast path with it

struct Sizes {
  std::int64_t tokens = 0, batch = 0, embed = 0, heads = 0;
  std::int64_t head() const { return embed / heads; }
};

// [T, N, E] -> the packed projections, as [3, T, N, E].
TensorId packed_projections(LayerBuilder& b, TensorId x, const MultiheadAttention& mha, const Sizes& s) {
  const TensorId y = linear(b, x, mha.in_weight, mha.in_bias);
  const TensorId parts = unsqueeze(b, view(b, y, {s.tokens, s.batch, 3, s.embed}), 0);
  return contiguous(b, squeeze(b, transpose(b, parts, 0, -2), -2));
}

// [T, N, E] -> [N heads, T, head]
TensorId by_head(LayerBuilder& b, TensorId x, const Sizes& s) {
  return transpose(b, view(b, x, {s.tokens, s.batch * s.heads, s.head()}), 0, 1);
}

TensorId with_weights(LayerBuilder& b, std::array<TensorId, 3> qkv, const MultiheadAttention& mha, const Sizes& s) {
  const TensorId scaled = binary_number(b, Binary::mul, qkv[0], 1 / std::sqrt(static_cast<double>(s.head())));
  const TensorId scores = bmm(b, scaled, transpose(b, qkv[1], -2, -1));
  b.hold({scaled, qkv[1]});
  const TensorId weights = dropout(b, softmax(b, scores, -1), mha.dropout, b.training());
  const TensorId mixed = bmm(b, weights, qkv[2]);
  const TensorId rows = reshape(b, transpose(b, mixed, 0, 1), {s.tokens * s.batch, s.embed});
  const TensorId y = view(b, linear(b, rows, mha.out_weight, mha.out_bias), {s.tokens, s.batch, s.embed});
  const TensorId all = view(b, weights, {s.batch, s.heads, s.tokens, s.tokens});
  b.hold({reduce(b, all, 0b10U, false, true), weights});
  return y;
}

TensorId fused(LayerBuilder& b, std::array<TensorId, 3> qkv, const MultiheadAttention& mha, const Sizes& s) {
  for (TensorId& t : qkv) t = view(b, t, {s.batch, s.heads, s.tokens, s.head()});
  const TensorId mixed = scaled_dot_product_attention(
      b, {.query = qkv[0], .key = qkv[1], .value = qkv[2], .dropout = b.training() ? mha.dropout : 0});
  if (!b.before(kDropsProjections)) b.hold(qkv);
  const TensorId rows = reshape(b, permute(b, mixed, {2, 0, 1, 3}), {s.batch * s.tokens, s.embed});
  const TensorId y = view(b, linear(b, rows, mha.out_weight, mha.out_bias), {s.tokens, s.batch, s.embed});
  if (b.before(kDropsProjections)) b.hold(qkv);
  return y;
}

// Before 2.0: the projections stay packed and are copied one by one, and the weights are made in any case.
TensorId before_fused_kernels(LayerBuilder& b, TensorId x, const MultiheadAttention& mha, const Sizes& s) {
  const std::array<std::int64_t, 3> sizes{s.embed, s.embed, s.embed};
  std::vector<TensorId> qkv = split(b, linear(b, x, mha.in_weight, mha.in_bias), 2, sizes, "SplitBackward0");
  for (TensorId& t : qkv) t = by_head(b, contiguous(b, t), s);
  const TensorId scaled = binary_number(b, Binary::div, qkv[0], std::sqrt(static_cast<double>(s.head())));
  const TensorId scores = bmm(b, scaled, transpose(b, qkv[1], -2, -1));
  const TensorId weights = dropout(b, softmax(b, scores, -1), mha.dropout, b.training());
  const TensorId mixed = bmm(b, weights, qkv[2]);
  const TensorId rows = reshape(b, transpose(b, mixed, 0, 1), {s.tokens * s.batch, s.embed});
  const TensorId y = view(b, linear(b, rows, mha.out_weight, mha.out_bias), {s.tokens, s.batch, s.embed});
  if (mha.need_weights) {
    const TensorId all = view(b, weights, {s.batch, s.heads, s.tokens, s.tokens});
    b.hold({y, binary_number(b, Binary::div, reduce(b, all, 0b10U, false, false), static_cast<double>(s.heads))});
  }
  b.hold({scaled, weights});
  b.hold(qkv);
  return y;
}

TensorId functional(LayerBuilder& b, TensorId x, const MultiheadAttention& mha) {
  if (mha.batch_first) x = transpose(b, x, 1, 0);
  const Shape in = b.shape(x);
  const Sizes s{in[0], in[1], in[2], mha.heads};
  if (b.before(kFusedKernels)) {
    const TensorId y = before_fused_kernels(b, x, mha, s);
    return mha.batch_first ? transpose(b, y, 1, 0) : y;
  }
  const TensorId packed = packed_projections(b, x, mha, s);
  std::array<TensorId, 3> qkv{};
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = select(b, packed, 0, static_cast<std::int64_t>(i));
  for (TensorId& t : qkv) t = by_head(b, t, s);
  const TensorId y = mha.need_weights ? with_weights(b, qkv, mha, s) : fused(b, qkv, mha, s);
  return mha.batch_first ? transpose(b, y, 1, 0) : y;
}

// The same where no fused kernel takes x itself, divided into heads, which they are asked: where the numbers of a token
// lie apart, or a head has a size that is not aligned. The projections get their bias on their way into one tensor of
// all heads, softmax writes over the scores, and the mixed values go to the queries' place
// (aten/src/ATen/native/transformers/attention.cpp).
TensorId by_products(LayerBuilder& b, TensorId x, const MultiheadAttention& mha) {
  const Shape in = b.shape(x);
  const std::int64_t heads = mha.heads, tokens = in[1], head = in[2] / heads;
  const TensorId packed = matmul_as_given(b, x, transpose(b, mha.in_weight, 0, 1), true);
  const Shape all{3, in[0], heads, tokens, head};
  const TensorId projections =
      b.emit(Operator::_transform_bias_rescale_qkv, Copy{all.elements()}, {packed, mha.in_bias}, all, b.dtype(x));
  std::array<TensorId, 3> qkv{};
  for (std::size_t i = 0; i < qkv.size(); ++i)
    qkv[i] = view(b, select(b, projections, 0, static_cast<std::int64_t>(i)), {in[0] * heads, tokens, head});
  const TensorId scores = bmm(b, qkv[0], transpose(b, qkv[1], 1, 2));
  const TensorId weights =
      b.emit_in_place(Operator::_softmax_out, Softmax{.elements = b.elements(scores), .dtype = b.dtype(x)}, {scores});
  const Gemm mixing{.batch = in[0] * heads, .m = tokens, .n = head, .k = tokens, .dtype = b.dtype(x), .batched = true};
  const TensorId mixed =
      view(b, b.emit_in_place(Operator::bmm_out, mixing, {qkv[0], weights, qkv[2]}), {in[0], heads, tokens, head});
  const TensorId rows = view(b, contiguous(b, transpose(b, mixed, 1, 2)), {in[0] * tokens, in[2]});
  const TensorId y = addmm(b, mha.out_bias, rows, transpose(b, mha.out_weight, 0, 1));
  b.hold({projections});
  return view(b, y, in);
}

// torch._native_multi_head_attention: what the fused kernels need, without a copy.
TensorId fast_path(LayerBuilder& b, TensorId x, const MultiheadAttention& mha) {
  const Shape in = b.shape(x);
  if (b.strides(x)[2] != 1 || takes_no_fused_kernel(b, x, mha.heads)) return by_products(b, x, mha);
  const TensorId packed = linear_below_autograd(b, x, mha.in_weight, mha.in_bias);
  const std::array<std::int64_t, 3> sizes{in[2], in[2], in[2]};
  std::vector<TensorId> qkv = split(b, packed, 2, sizes, "SplitBackward0");
  for (TensorId& t : qkv) t = transpose(b, view(b, t, {in[0], in[1], mha.heads, in[2] / mha.heads}), 1, 2);
  const TensorId mixed = scaled_dot_product_attention(b, {.query = qkv[0], .key = qkv[1], .value = qkv[2]});
  const TensorId rows = reshape(b, transpose(b, mixed, 1, 2), in);
  const TensorId y = linear(b, rows, mha.out_weight, mha.out_bias);
  b.hold({packed});
  return y;
}

}  // namespace

MultiheadAttention multihead_attention_weights(LayerBuilder& b, std::int64_t embed, bool bias) {
  MultiheadAttention mha;
  mha.in_weight = b.parameter("in_proj_weight", {3 * embed, embed});
  if (bias) mha.in_bias = b.parameter("in_proj_bias", {3 * embed});
  mha.out_weight = b.parameter("out_proj.weight", {embed, embed});
  if (bias) mha.out_bias = b.parameter("out_proj.bias", {embed});
  return mha;
}

TensorId multihead_attention(LayerBuilder& b, TensorId x, const MultiheadAttention& mha) {
  const bool fast = !b.training() && !b.autocast() && mha.batch_first && !mha.need_weights && mha.heads % 2 == 0 &&
                    mha.in_bias != kNone && !b.before(kFusedKernels);
  return fast ? fast_path(b, x, mha) : functional(b, x, mha);
}

}  // namespace gpuplan::aten
