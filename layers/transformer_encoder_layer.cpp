// TransformerEncoderLayer: self attention and a feed-forward network, each with a sum and a normalization.
//
// torch/nn/modules/transformer.py. With a gradient or under autocast its modules run one after the other. Otherwise one
// operator does all of it (aten/src/ATen/native/transformers/transformer.cpp, transformer_encoder_layer_forward): the
// projections stay packed, sums and the activation are in place. What that operator allocates besides its result is its
// scratch.

#include <string>

#include "estimator/aten/linear.h"
#include "estimator/aten/multihead_attention.h"
#include "estimator/aten/normalization.h"
#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::transformer_encoder_layer {
namespace {

struct Weighted {  // a linear map or a normalization
  TensorId weight = kNone, bias = kNone;
};

struct Encoder {
  aten::MultiheadAttention attention;
  Weighted linear1, linear2, norm1, norm2;
  std::int64_t inner = 0;
  double p = 0;
  bool gelu = false, norm_first = false;
};

aten::MultiheadAttention attention_of(LayerBuilder& b, std::int64_t d, double p) {
  const bool bias = b.boolean("bias");
  aten::MultiheadAttention a;
  a.in_weight = b.parameter("self_attn.in_proj_weight", {3 * d, d});
  if (bias) a.in_bias = b.parameter("self_attn.in_proj_bias", {3 * d});
  a.out_weight = b.parameter("self_attn.out_proj.weight", {d, d});
  if (bias) a.out_bias = b.parameter("self_attn.out_proj.bias", {d});
  a.heads = b.size("nhead");
  a.dropout = p;
  a.batch_first = b.boolean("batch_first");
  a.need_weights = false;
  return a;
}

Weighted weights(LayerBuilder& b, std::string_view weight, std::string_view bias, const Shape& shape) {
  Weighted w{b.parameter(weight, shape), kNone};
  if (b.boolean("bias")) w.bias = b.parameter(bias, {shape[0]});
  return w;
}

Encoder encoder(LayerBuilder& b) {
  b.expect_rank(3, "[N, T, E], or [T, N, E] without batch_first");
  const std::int64_t d = b.size("d_model", b.shape(b.input())[2], "features");
  const std::int64_t heads = b.size("nhead");
  if (d % heads != 0)
    b.fail("nhead", std::to_string(d) + " features do not divide into " + std::to_string(heads) + " heads");
  Encoder e;
  e.inner = b.size("dim_feedforward");
  e.p = b.real("dropout");
  if (!(e.p >= 0 && e.p < 1)) b.fail("dropout", "dropout is a probability", "expected 0 <= dropout < 1");
  const std::string_view activation = b.word("activation");
  if (activation != "relu" && activation != "gelu")
    b.fail("activation", "unknown activation \"" + std::string(activation) + "\"", "expected relu or gelu");
  e.gelu = activation == "gelu";
  e.norm_first = b.boolean("norm_first");
  e.attention = attention_of(b, d, e.p);
  e.linear1 = weights(b, "linear1.weight", "linear1.bias", {e.inner, d});
  e.linear2 = weights(b, "linear2.weight", "linear2.bias", {d, e.inner});
  e.norm1 = weights(b, "norm1.weight", "norm1.bias", {d});
  e.norm2 = weights(b, "norm2.weight", "norm2.bias", {d});
  return e;
}

TensorId norm(LayerBuilder& b, TensorId x, const Weighted& w) {
  return aten::layer_norm(b, x, 1, w.weight, w.bias, b.real("layer_norm_eps"));
}
TensorId linear(LayerBuilder& b, TensorId x, const Weighted& w) { return aten::linear(b, x, w.weight, w.bias); }
const aten::Unary& activation(const Encoder& e) { return e.gelu ? aten::kGelu : aten::kRelu; }

// _sa_block
TensorId attend(LayerBuilder& b, TensorId x, const Encoder& e) {
  const TensorId y = aten::multihead_attention(b, x, e.attention);
  b.hold({x});
  return aten::dropout(b, y, e.p, b.training());
}

// _ff_block
TensorId feed_forward(LayerBuilder& b, TensorId x, const Encoder& e) {
  const TensorId inner = aten::unary(b, linear(b, x, e.linear1), activation(e));
  const TensorId y = linear(b, aten::dropout(b, inner, e.p, b.training()), e.linear2);
  b.hold({x});
  return aten::dropout(b, y, e.p, b.training());
}

TensorId by_modules(LayerBuilder& b, TensorId x, const Encoder& e) {
  if (e.norm_first) {
    x = aten::add(b, x, attend(b, norm(b, x, e.norm1), e));
    return aten::add(b, x, feed_forward(b, norm(b, x, e.norm2), e));
  }
  const TensorId attended = norm(b, aten::add(b, x, attend(b, x, e)), e.norm1);
  const TensorId y = norm(b, aten::add(b, attended, feed_forward(b, attended, e)), e.norm2);
  b.hold({attended});
  return y;
}

std::int64_t multiply_adds(const Shape& x, const Encoder& e, bool batch_first) {
  const std::int64_t d = x[2], tokens = batch_first ? x[1] : x[0];
  const std::int64_t per_token = 4 * d * d + 2 * d * e.inner + 2 * tokens * d;
  return checked_mul(x[0] * x[1], per_token);
}

// The operator's own steps.
TensorId by_one_operator(LayerBuilder& b, TensorId x, const Encoder& e) {
  const TensorId source = x;
  if (e.norm_first) x = norm(b, x, e.norm1);
  TensorId given = x;  // C++'s variable holds it until it has the result
  x = aten::multihead_attention(b, x, e.attention);
  b.hold({given});
  x = aten::binary(b, aten::Binary::add, x, source, true);
  if (!e.norm_first) x = norm(b, x, e.norm1);
  const TensorId attended = x;
  if (e.norm_first) x = norm(b, x, e.norm2);
  given = x;
  x = linear(b, aten::unary(b, linear(b, x, e.linear1), activation(e), true), e.linear2);
  b.hold({given});
  x = aten::binary(b, aten::Binary::add, x, attended, true);
  if (!e.norm_first) x = norm(b, x, e.norm2);
  b.hold({attended});
  return x;
}

void lower(LayerBuilder& b) {
  const Encoder e = encoder(b);
  const TensorId x = b.input();
  const bool one_operator = !b.training() && !b.autocast() && e.attention.batch_first && e.attention.heads % 2 == 0 &&
                            e.attention.in_bias != kNone;
  if (!one_operator) return b.output(by_modules(b, x, e));
  if (b.run().scratch != Scratch::none) return b.output(by_one_operator(b, x, e));
  const OpaqueKernel all{.macs = multiply_adds(b.shape(x), e, true)};
  b.output(b.emit(Operator::_transformer_encoder_layer_fwd, all, {x}, b.shape(x), b.dtype(x)));
}

const LayerDef kLayers[] = {
    {.name = "TransformerEncoderLayer",
     .summary = "self attention and a feed-forward network with normalized sums",
     .math =
         "x [N, T, E]: y = LN(x + attention(x)), LN(y + W2 act(W1 y)); with norm_first the norms come first in each "
         "branch.\nN T (4 E^2 + 2 E F + 2 T E) multiply-adds, F = dim_feedforward. Saved: what its parts save.",
     .parameters = {{"d_model", ParameterType::size, "", "features of the input, or _"},
                    {"nhead", ParameterType::size, "", "heads"},
                    {"dim_feedforward", ParameterType::size, "2048", "features between the two linear maps"},
                    {"dropout", ParameterType::real, "0.1", "of attention weights, activations and both branches"},
                    {"activation", ParameterType::word, "relu", "relu or gelu"},
                    {"layer_norm_eps", ParameterType::real, "1e-5", "takes no memory"},
                    {"batch_first", ParameterType::boolean, "False", "[N, T, E] instead of [T, N, E]"},
                    {"norm_first", ParameterType::boolean, "False", "normalizes what goes into a branch"},
                    {"bias", ParameterType::boolean, "True", "biases of projections and norms"}},
     .lower = lower,
     .example = {.call = "TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)",
                 .input_shapes = {{2, 16, 64}},
                 .parameters = 33'472,
                 .forward_macs = 1'114'112,
                 .backward_macs = 2'228'224,
                 .saved_bytes = 91'664,
                 .derivation =
                     "3*64*64 + 192 + 64*64 + 64 + 2*64*128 + 128 + 64 + 4*64 parameters; 32*(4*64*64 + "
                     "2*64*128 + 2*16*64) multiply-adds; MultiheadAttention's 50,192 bytes, both sums and the "
                     "first norm 8,192 each, a mean and rstd a row of both norms 512, relu's result 16,384"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::transformer_encoder_layer
