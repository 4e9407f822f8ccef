// T5PositionBias, ZeroPositionBias, PositionBiasAttention: T5's attention, which adds a table of relative positions to
// its scores and does not scale them.
//
// transformers/models/t5/modeling_t5.py, T5Attention.compute_bias and _relative_position_bucket: the first layer of a
// stack computes the bias, the others are given it. Every tensor is counted, however small. Cross attention gets zeros.
// transformers/integrations/sdpa_attention.py, create_position_bias_mask: the bias is an SDPA kernel's mask, a copy in
// every layer; a causal one is chosen against the least number first.

#include <array>
#include <cmath>

#include "estimator/aten/attention.h"
#include "estimator/aten/embedding.h"
#include "estimator/aten/linear.h"
#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::position_bias {
namespace {

using aten::no_grad;

constexpr double kMaxDistance = 128;  // relative_attention_max_distance, which T5's configurations leave as it is

// With n buckets of which the first m are of one distance each: m + (log(distance / m) / log(128 / m) * (n - m))
// .to(int64), and at most the last bucket.
TensorId large_distances(LayerBuilder& b, TensorId distance, double n, double m) {
  const Shape shape = b.shape(distance);
  TensorId x = no_grad(b, Operator::to, {distance}, shape, DType::fp32);
  x = no_grad(b, Operator::div, {x}, shape, DType::fp32, {{Attribute::other, m}});
  x = no_grad(b, Operator::log, {x}, shape, DType::fp32);
  x = no_grad(b, Operator::div, {x}, shape, DType::fp32, {{Attribute::other, std::log(kMaxDistance / m)}});
  x = no_grad(b, Operator::mul, {x}, shape, DType::fp32, {{Attribute::other, n - m}});
  x = no_grad(b, Operator::to, {x}, shape, DType::int64);
  x = no_grad(b, Operator::add, {x}, shape, DType::int64, {{Attribute::other, m}});
  const TensorId last = no_grad(b, Operator::full_like, {x}, shape, DType::int64, {{Attribute::value, n - 1}});
  return no_grad(b, Operator::min, {x, last}, shape, DType::int64);
}

// The number of the bucket of each pair of positions. Encoders tell keys before from keys after.
TensorId buckets(LayerBuilder& b, TensorId relative, std::int64_t all, bool bidirectional) {
  const Shape shape = b.shape(relative);
  const std::int64_t each = bidirectional ? all / 2 : all;
  const auto n = static_cast<double>(each), exact = static_cast<double>(each / 2);
  TensorId bucket = kNone, distance = kNone;
  if (bidirectional) {
    const TensorId after = no_grad(b, Operator::gt, {relative}, shape, DType::boolean, {{Attribute::other, 0}});
    const TensorId number = no_grad(b, Operator::to, {after}, shape, DType::int64);
    const TensorId half = no_grad(b, Operator::mul, {number}, shape, DType::int64, {{Attribute::other, n}});
    bucket = no_grad(b, Operator::add, {half}, shape, DType::int64, {{Attribute::other, 0}});
    distance = no_grad(b, Operator::abs, {relative}, shape, DType::int64);
  } else {
    const TensorId zeros = no_grad(b, Operator::zeros_like, {relative}, shape, DType::int64);
    const TensorId before = no_grad(b, Operator::min, {relative, zeros}, shape, DType::int64);
    distance = no_grad(b, Operator::neg, {before}, shape, DType::int64);
  }
  const TensorId small = no_grad(b, Operator::lt, {distance}, shape, DType::boolean, {{Attribute::other, exact}});
  const TensorId large = large_distances(b, distance, n, exact);
  const TensorId chosen = no_grad(b, Operator::where, {small, distance, large}, shape, DType::int64);
  bucket = bidirectional ? b.emit_in_place(Operator::add_, Elementwise{shape.elements()}, {bucket, chosen})
                         : no_grad(b, Operator::add, {chosen}, shape, DType::int64, {{Attribute::other, 0}});
  b.hold({small, distance, large});
  return bucket;
}

void lower_bias(LayerBuilder& b) {
  const std::int64_t tokens = b.size("tokens");
  const std::int64_t rows = b.size("num_buckets");
  const TensorId weight = b.parameter("weight", {rows, b.size("num_heads")});
  const TensorId first = no_grad(b, Operator::arange, {}, {tokens}, DType::int64, {{Attribute::start, 0}});
  const TensorId query = no_grad(b, Operator::add, {first}, {tokens}, DType::int64, {{Attribute::other, 0}});
  const TensorId key = no_grad(b, Operator::arange, {}, {tokens}, DType::int64, {{Attribute::start, 0}});
  const TensorId column = aten::unsqueeze(b, query, 1);
  const TensorId relative = no_grad(b, Operator::sub, {key, column}, {tokens, tokens}, DType::int64);
  const TensorId bucket = buckets(b, relative, rows, b.boolean("bidirectional"));
  const TensorId values = aten::embedding(b, weight, bucket);
  b.hold({query, key, relative, bucket});
  b.output(aten::unsqueeze(b, aten::permute(b, values, {2, 0, 1}), 0));
}

void lower_zeros(LayerBuilder& b) {
  const Shape shape{1, b.size("num_heads"), b.size("queries"), b.size("keys")};
  b.output(b.emit(Operator::zeros, Fill{shape.elements()}, {}, shape, b.autocast().value_or(b.run().precision)));
}

// torch.where(mask, bias, number).contiguous(): the number becomes a tensor on the device.
TensorId masked(LayerBuilder& b, TensorId mask, TensorId bias) {
  const Shape shape = aten::broadcast(b, b.shape(mask), b.shape(bias));
  const DType dtype = b.dtype(bias);
  const Elementwise each{shape.elements()};
  const OutputSpec results[] = {{Shape{}, dtype}, {shape, dtype}};
  const TensorId y = b.emit_many(Operator::where, each, {mask, bias}, results)[1];
  b.attributes({{Attribute::other, lowest(dtype)}});
  if (NodeBuilder node = b.node("WhereBackward0", y, {bias})) {
    node.give(bias, node.run_many(Operator::where, each, {mask, node.grad()}, results)[1]);
    node.attributes({{Attribute::other, 0}});
  }
  const TensorId contiguous = aten::contiguous(b, y);
  b.hold({y});
  return contiguous;
}

// arange[:, None] >= arange[None, :], [1, 1, queries, keys].
TensorId causal_condition(LayerBuilder& b, std::int64_t queries, std::int64_t keys) {
  const TensorId q = aten::arange(b, queries);
  const TensorId k = aten::arange(b, keys);
  const TensorId past = no_grad(b, Operator::ge, {aten::unsqueeze(b, q, 1), k}, {queries, keys}, DType::boolean);
  return b.alias(past, {1, 1, queries, keys}, contiguous_strides({1, 1, queries, keys}));
}

// create_position_bias_mask: the mask, or a causal one, chosen against the least number; the bias itself without one.
TensorId combined(LayerBuilder& b, TensorId mask, bool causal, TensorId bias, std::int64_t queries, std::int64_t keys) {
  if (mask != kNone) return masked(b, mask, bias);
  if (!causal) return aten::contiguous(b, bias);
  const TensorId past = causal_condition(b, queries, keys);
  const TensorId y = masked(b, past, bias);
  b.hold({past});
  return y;
}

struct Operands {
  TensorId q = kNone, k = kNone, v = kNone, bias = kNone, mask = kNone;
};

// The result and the weights, which T5Attention, T5LayerSelfAttention and T5Block name. A first block that is written
// within its stack names them by the second result.
void lower_eager(LayerBuilder& b, const Operands& of, double p) {
  TensorId weights = aten::matmul(b, of.q, aten::transpose(b, of.k, 2, 3));
  weights = aten::binary_number(b, aten::Binary::mul, weights, 1);
  weights = aten::add(b, weights, of.bias);
  if (of.mask != kNone) weights = aten::add(b, weights, of.mask);
  weights = aten::dropout(b, aten::softmax(b, weights, -1), p, b.training());
  const TensorId y = aten::contiguous(b, aten::transpose(b, aten::matmul(b, weights, of.v), 1, 2));
  b.hold({weights});
  if (b.integer("frames") > 0) ModelBuilder(b).return_beside(weights, static_cast<int>(b.integer("frames")));
  b.outputs({y, weights});
}

void lower_attention(LayerBuilder& b) {
  const double p = b.real("dropout");
  if (!(p >= 0 && p < 1)) b.fail("dropout", "the share of dropped weights is out of range", "expected 0 <= p < 1");
  for (int i = 0; i < 4; ++i)
    if (b.shape(b.input(i)).rank() != 4)
      b.fail("expects queries, keys and values [batch, heads, tokens, head] and a bias [1, heads, queries, keys]");
  Operands of{b.input(0), b.input(1), b.input(2), b.input(3), b.input_count() == 5 ? b.input(4) : kNone};
  if (of.mask != kNone && !aten::is_attention_mask(b, of.mask)) of.mask = kNone;
  if (b.run().attention == Attention::eager) return lower_eager(b, of, p);
  const std::int64_t queries = b.shape(of.q)[2];
  const bool causal = b.boolean("causal") && queries > 1;
  const TensorId mask = combined(b, of.mask, causal, of.bias, queries, b.shape(of.k)[2]);
  const TensorId y = aten::scaled_dot_product_attention(
      b, {.query = of.q, .key = of.k, .value = of.v, .mask = mask, .dropout = b.training() ? p : 0});
  b.outputs({aten::contiguous(b, aten::transpose(b, y, 1, 2)), of.bias});  // no weights
  b.hold({mask});
}

const LayerDef kLayers[] = {
    {.name = "T5PositionBias",
     .summary = "T5's bias of attention scores: a row of a table for every bucket of distances",
     .math = "W [buckets, heads] -> W[bucket(key - query)] as [1, heads, tokens, tokens]. Saved: the buckets, int64.",
     .parameters = {{"num_buckets", ParameterType::size, "", "rows of the table"},
                    {"num_heads", ParameterType::size, "", "attention heads"},
                    {"tokens", ParameterType::size, "", "length of the sequence"},
                    {"bidirectional", ParameterType::boolean, "True",
                     "keys after the query have buckets of their own"}},
     .min_inputs = 0,
     .lower = lower_bias,
     .example = {.call = "T5PositionBias(32, 8, 10)",
                 .input_shapes = {},
                 .output_shape = {1, 8, 10, 10},
                 .parameters = 256,
                 .saved_bytes = 800,
                 .derivation = "32*8 parameters; 10*10 buckets of 8 bytes are saved"}},
    {.name = "ZeroPositionBias",
     .summary = "the bias of T5's cross attention: zeros",
     .math = "Zeros [1, heads, queries, keys] of the queries' type. No gradient.",
     .parameters = {{"num_heads", ParameterType::size, "", "attention heads"},
                    {"queries", ParameterType::size, "", "tokens of the decoder"},
                    {"keys", ParameterType::size, "", "tokens of the encoder"}},
     .min_inputs = 0,
     .lower = lower_zeros,
     .example = {.call = "ZeroPositionBias(4, 16, 32)",
                 .input_shapes = {},
                 .output_shape = {1, 4, 16, 32},
                 .derivation = "nothing is saved"}},
    {.name = "PositionBiasAttention",
     .summary = "attention with a bias of its scores, as Hugging Face's T5 calls it",
     .math =
         "q [b, h, s, d], k and v [b, h, t, d], bias [1, h, s, t] -> [b, s, h, d]; softmax(q k^T + bias) v.\n"
         "2 b h s t d multiply-adds. Saved: q, k, v, the bias copied, the result and a number a row. A fifth input is\n"
         "CausalMask's, which eager attention adds. A second result is eager attention's weights, else the bias.",
     .parameters = {{"dropout", ParameterType::real, "0.0", "share of attention weights that training sets to zero"},
                    {"causal", ParameterType::boolean, "False", "later keys are masked"},
                    {"frames", ParameterType::integer, "2",
                     "eager: blocks around its own whose forward names the weights; 0: its second result does"}},
     .min_inputs = 4,
     .max_inputs = 5,
     .indices = true,
     .lower = lower_attention,
     .example = {.call = "PositionBiasAttention()",
                 .input_shapes = {{2, 4, 32, 64}, {2, 4, 32, 64}, {2, 4, 32, 64}, {2, 4, 32, 32}},
                 .output_shape = {2, 32, 4, 64},
                 .forward_macs = 1'048'576,
                 .backward_macs = 2'097'152,
                 .saved_bytes = 295'952,
                 .derivation = "forward 2*2*4*32*32*64; backward four such products (the scores computed again are "
                               "counted apart). q, k, v and the result are "
                               "2*4*32*64*4 bytes each, the bias 2*4*32*32*4, a number for each of 2*4*32 rows; the "
                               "dropout's seed and offset, 8 each"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::position_bias
