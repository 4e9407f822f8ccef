// LlamaRotaryEmbedding, ApplyRotaryPosEmb: rotary position embedding as Hugging Face's Llama family computes it.
//
// The tables are made anew in every forward, in fp32 without gradients, and kept by the frame of the model and by the
// products of every layer (transformers/models/llama/modeling_llama.py). transformers 5, which is what runs with
// PyTorch 2.9 and newer, multiplies positions and frequencies; 4.x runs a batched matrix product and registers one
// buffer of frequencies instead of two.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::rotary {
namespace {

// The angle of every position and frequency, [b, s, dim / 2]; `held` are the names of forward() so far.
TensorId angles(LayerBuilder& b, TensorId positions, TensorId inverse_frequency, std::vector<TensorId>& held) {
  const Shape p = b.shape(positions);
  const std::int64_t half = b.shape(inverse_frequency)[0];
  const TensorId as_real = b.cast(positions, DType::fp32);
  inverse_frequency = b.cast(inverse_frequency, DType::fp32);
  const Shape out{p[0], p[1], half};
  TensorId result = kNone;
  if (b.before(kTransformers5)) {
    const Gemm product{.batch = p[0], .m = half, .n = p[1], .k = 1, .dtype = DType::fp32, .batched = true};
    const TensorId column = aten::unsqueeze(b, aten::unsqueeze(b, inverse_frequency, 0), 2);
    const TensorId frequencies = aten::expand(b, column, {p[0], half, 1});
    const TensorId rows = aten::unsqueeze(b, as_real, 1);
    result = b.emit(Operator::bmm, product, {frequencies, rows}, {p[0], half, p[1]}, DType::fp32);
    result = aten::transpose(b, result, 1, 2);
    held.push_back(as_real);
  } else {
    result = aten::no_grad(b, Operator::mul, {aten::unsqueeze(b, as_real, 2), inverse_frequency}, out, DType::fp32);
  }
  held.push_back(result);
  return result;
}

// 1 / base^(2 i / dim), computed on the device by the constructor: of its temporaries, each of which is freed where the
// next one needs room, a hole is left behind.
TensorId frequencies(LayerBuilder& b, std::int64_t count) {
  constexpr std::int64_t kBlockElements = 128;  // 512 bytes
  const std::int64_t charged = round_up(count, kBlockElements);
  const Initial values{Initial::frequencies, b.real("base")};
  const DType type = b.run().cast_buffers.value_or(DType::fp32);
  if (!b.before(kTransformers5)) b.buffer("original_inv_freq", {count}, type, values);
  ModelBuilder(b).constructor_temporary({b.before(kTransformers5) ? checked_mul(2, charged) : charged}, DType::fp32);
  return b.buffer("inv_freq", {count}, type, values);
}

TensorId table(LayerBuilder& b, Operator function, TensorId angle) {
  const Shape shape = b.shape(angle);
  const TensorId values = aten::no_grad(b, function, {angle}, shape, DType::fp32);
  return aten::no_grad(b, Operator::mul, {values}, shape, DType::fp32, {{Attribute::other, 1}});
}

// dynamic_rope_update (transformers/modeling_rope_utils.py): the largest position decides which frequencies are used.
// dynamic compares it with the longest sequence so far, taken to be none that makes the frequencies anew. longrope
// copies one of two sets into the buffer; the second set is made by the first forward and kept.
void update_frequencies(LayerBuilder& b, TensorId positions, std::int64_t count) {
  const std::string_view scaling = b.word("scaling");
  if (scaling == "default") return;
  if (scaling != "dynamic" && scaling != "longrope")
    b.fail("scaling", "unknown scaling \"" + std::string(scaling) + "\"", "expected default, dynamic or longrope");
  const TensorId most = aten::no_grad(b, Operator::max, {positions}, {}, DType::int64);
  const TensorId length = aten::no_grad(b, Operator::add, {most}, {}, DType::int64, {{Attribute::other, 1}});
  const TensorId longer = aten::no_grad(b, Operator::gt, {length}, {}, DType::boolean);
  if (scaling == "dynamic") {
    const TensorId shorter = aten::no_grad(b, Operator::lt, {length}, {}, DType::boolean);
    return b.hold({length, shorter});
  }
  const TensorId second = ModelBuilder(b).constant({count}, DType::fp32);
  const TensorId chosen = aten::no_grad(b, Operator::where, {longer, second}, {count}, DType::fp32);
  b.hold({length, chosen});
}

void lower_tables(LayerBuilder& b) {
  const TensorId positions = b.input();
  const std::int64_t dim = b.size("dim");
  if (dim % 2 != 0) b.fail("dim", "the size of a head must be even", "expected 2, 4, ...");
  if (b.shape(positions).rank() != 2) b.fail("expects positions [1 or batch, tokens]");
  const TensorId inverse_frequency = frequencies(b, dim / 2);
  update_frequencies(b, positions, dim / 2);
  std::vector<TensorId> held;
  const TensorId half = angles(b, positions, inverse_frequency, held);
  const TensorId angle = aten::cat(b, std::array{half, half}, 2);
  const TensorId cosine = table(b, Operator::cos, angle);
  const TensorId sine = table(b, Operator::sin, angle);
  for (const TensorId t : {angle, cosine, sine}) held.push_back(t);
  b.outputs({b.cast(cosine, b.run().precision), b.cast(sine, b.run().precision)});
  b.hold(held);
}

// (-x2, x1) of the two halves of x.
TensorId rotate_half(LayerBuilder& b, TensorId x) {
  const std::int64_t half = b.shape(x)[-1] / 2;
  const TensorId first = aten::slice(b, x, -1, 0, half);
  const TensorId second = aten::slice(b, x, -1, half, half);
  return aten::cat(b, std::array{aten::unary(b, second, aten::kNeg), first}, b.shape(x).rank() - 1);
}

TensorId rotated(LayerBuilder& b, TensorId x, TensorId cosine, TensorId sine) {
  const TensorId straight = aten::mul(b, x, cosine);
  const TensorId across = aten::mul(b, rotate_half(b, x), sine);
  return aten::add(b, straight, across);
}

// What is turned, and what is not: x[..., :turned] is x itself where that is all of it, x[..., turned:] is a view then,
// too, of no element, whose gradient is zeros of x's size.
struct Parts {
  TensorId turned, rest;
};
Parts parted(LayerBuilder& b, TensorId x, std::int64_t turned) {
  const std::int64_t size = b.shape(x)[-1];
  const TensorId first = turned == size ? x : aten::slice(b, x, -1, 0, turned);
  return {first, aten::slice(b, x, -1, turned, size - turned)};
}

void lower_partial(LayerBuilder& b, TensorId cosine, TensorId sine) {
  const std::int64_t turned = b.shape(cosine)[-1];
  if (turned > b.shape(b.input(0))[3] || turned > b.shape(b.input(1))[3])
    b.fail("the tables turn " + std::to_string(turned) + " numbers of a head, and it has fewer");
  const Parts q = parted(b, b.input(0), turned), k = parted(b, b.input(1), turned);
  const auto joined = [&](const Parts& of) {
    return aten::cat(b, std::array{rotated(b, of.turned, cosine, sine), of.rest}, 3);
  };
  const TensorId q_embed = joined(q);
  b.outputs({q_embed, joined(k)});
}

void lower_apply(LayerBuilder& b) {
  const TensorId q = b.input(0), k = b.input(1);
  const Shape shape = b.shape(q);
  if (shape.rank() != 4 || b.shape(k).rank() != 4) b.fail("expects queries and keys [batch, heads, tokens, head]");
  if (shape[3] % 2 != 0) b.fail("expects heads of an even size, got " + to_string(shape));
  const auto dim = static_cast<int>(b.integer("unsqueeze_dim"));
  if (dim != 1 && dim != 2) b.fail("unsqueeze_dim", "must be the dimension of the heads", "expected 1 or 2");
  const TensorId cosine = aten::unsqueeze(b, b.input(2), dim);
  const TensorId sine = aten::unsqueeze(b, b.input(3), dim);
  if (b.boolean("partial")) return lower_partial(b, cosine, sine);
  const TensorId q_embed = rotated(b, q, cosine, sine);
  b.outputs({q_embed, rotated(b, k, cosine, sine)});
}

const LayerDef kLayers[] = {
    {.name = "LlamaRotaryEmbedding",
     .summary = "cosine and sine of every position and frequency, the tables of rotary embedding",
     .math =
         "positions [b, s] -> cos, sin [b, s, dim] as name.0 and name.1, computed in fp32, of the embedding's type.\n"
         "Saved: nothing; the products that read them save both tables.",
     .parameters = {{"dim", ParameterType::size, "", "size of a head"},
                    {"base", ParameterType::real, "10000.0", "of the frequencies (rope_theta); changes no size"},
                    {"scaling", ParameterType::word, "default",
                     "dynamic or longrope: the positions of a batch decide on the frequencies"}},
     .indices = true,
     .lower = lower_tables,
     .example = {.call = "LlamaRotaryEmbedding(64)",
                 .input_shapes = {{1, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {1, 10, 64},
                 .derivation = "one row of 64 a position; nothing is saved"}},
    {.name = "ApplyRotaryPosEmb",
     .summary = "rotates queries and keys by the angles of their positions",
     .math = "q [b, h, s, d], k [b, g, s, d], cos, sin [b, s, d] -> q cos + rotate_half(q) sin, and k alike, as "
             "name.0 and\nname.1, with rotate_half(x) = cat(-x2, x1). Saved: cos and sin.",
     .parameters =
         {{"unsqueeze_dim", ParameterType::integer, "1", "the dimension of the heads"},
          {"partial", ParameterType::boolean, "False",
           "rotates only as many of a head's elements as the tables have, and appends the rest, as Phi-3 does"}},
     .min_inputs = 4,
     .lower = lower_apply,
     .example = {.call = "ApplyRotaryPosEmb()",
                 .input_shapes = {{2, 4, 10, 64}, {2, 2, 10, 64}, {2, 10, 64}, {2, 10, 64}},
                 .saved_bytes = 71'680,
                 .derivation = "where the tables want gradients, too: q and k, 2*6*10*64*4 bytes, as much for their "
                               "turned halves, and the tables, 2*2*10*64*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::rotary
