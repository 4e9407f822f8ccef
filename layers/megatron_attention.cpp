// MegatronRotary, MegatronRotaryTable, MegatronAttention: position and attention of Megatron-core's local specification
// (megatron/core 0.16, models/common/embeddings/rope_utils.py, transformer/dot_product_attention.py,
// fusions/fused_softmax.py without Apex's kernels). Names live until their functions return.

#include <array>
#include <cmath>

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::megatron_attention {
namespace {

// RotaryEmbedding.forward is cached: made by the first step, [tokens, 1, 1, size].
void lower_table(LayerBuilder& b) {
  const std::int64_t size = b.size("head");
  if (size % 2 != 0) b.fail("head", "the size of a head must be even", "expected 2, 4, ...");
  b.buffer("inv_freq", {size / 2}, DType::fp32, Initial{Initial::frequencies, 10000});
  const TensorId table = ModelBuilder(b).constant({b.size("tokens"), 1, 1, size}, DType::fp32);
  b.hold({table});  // where it is made
  b.output(table);
}

TensorId factor(LayerBuilder& b, Operator function, TensorId angles, DType dtype) {
  const Shape shape = b.shape(angles);
  const TensorId values = aten::no_grad(b, function, {angles}, shape, DType::fp32);
  const TensorId scaled = aten::no_grad(b, Operator::mul, {values}, shape, DType::fp32, {{Attribute::other, 1}});
  return b.cast(scaled, dtype);
}

TensorId rotate_half(LayerBuilder& b, TensorId x) {
  const std::int64_t half = b.shape(x)[-1] / 2;
  const std::array<std::int64_t, 2> sizes{half, half};
  const std::vector<TensorId> parts = aten::split(b, x, b.shape(x).rank() - 1, sizes, "SplitBackward0");  // torch.chunk
  return aten::cat(b, std::array{aten::unary(b, parts[1], aten::kNeg), parts[0]}, b.shape(x).rank() - 1);
}

// _apply_rotary_pos_emb_bshd, of all of a head; what is left of it is an empty slice, which is joined all the same.
void lower_rotary(LayerBuilder& b) {
  const TensorId x = b.input(0), angles = b.input(1);
  const Shape shape = b.shape(x);
  if (shape.rank() != 4 || shape[3] != b.shape(angles)[-1]) b.fail("expects [tokens, batch, heads, head], and a table");
  const TensorId rest = aten::slice(b, x, -1, shape[3], 0);
  const TensorId cosine = factor(b, Operator::cos, angles, b.dtype(x)),
                 sine = factor(b, Operator::sin, angles, b.dtype(x));
  const TensorId straight = aten::mul(b, x, cosine);
  const TensorId across = aten::mul(b, rotate_half(b, x), sine);
  const TensorId turned = aten::add(b, straight, across);
  b.output(aten::cat(b, std::array{turned, rest}, 3));
  b.hold({cosine, sine, turned});
}

// x.repeat_interleave(n, dim=2): a copy of a view with each head n times.
TensorId repeated(LayerBuilder& b, TensorId x, std::int64_t heads) {
  const Shape in = b.shape(x);
  if (in[2] == heads) return x;
  const TensorId wide = aten::expand(b, aten::unsqueeze(b, x, 3), {in[0], in[1], in[2], heads / in[2], in[3]});
  return aten::flatten(b, aten::clone(b, wide), 2, 3);
}

// torch.baddbmm(buffer, x, y, beta=0, alpha=...): each gradient is a product, then that times alpha.
TensorId scores_of(LayerBuilder& b, TensorId buffer, TensorId x, TensorId y) {
  const Shape s = b.shape(x), t = b.shape(y);
  const DType dtype = b.dtype(x);
  const Gemm product{.batch = s[0], .m = s[1], .n = t[2], .k = s[2], .dtype = dtype, .batched = true};
  const TensorId z = b.emit(Operator::baddbmm, product, {buffer, x, y}, {s[0], s[1], t[2]}, dtype);
  if (NodeBuilder node = b.node("BaddbmmBackward0", z, {x, y})) {
    const Gemm of_x{.batch = s[0],
                    .m = s[1],
                    .n = s[2],
                    .k = t[2],
                    .dtype = dtype,
                    .gradient = GemmGradient::of_first,
                    .batched = true};
    const Gemm of_y{.batch = s[0],
                    .m = s[2],
                    .n = t[2],
                    .k = s[1],
                    .dtype = dtype,
                    .gradient = GemmGradient::of_second,
                    .batched = true};
    const auto scaled = [&](Operand of, const Shape& shape) {
      return node.run(Operator::mul, Elementwise{shape.elements()}, {of}, shape, dtype);
    };
    const Operand dx = scaled(node.run(Operator::bmm, of_x, {node.grad(), y}, s, dtype), s);
    const Operand dy = scaled(node.run(Operator::bmm, of_y, {node.grad(), x}, t, dtype), t);
    node.give(x, dx);
    node.give(y, dy);
  }
  return z;
}

// get_default_causal_mask: torch.triu(torch.ones(n, n), diagonal=1).bool(), made anew each time.
TensorId causal_mask(LayerBuilder& b, std::int64_t n) {
  const Shape square{n, n};
  const TensorId ones = b.emit(Operator::ones, Fill{square.elements()}, {}, square, DType::fp32);
  const TensorId above = b.emit(Operator::triu, Copy{square.elements()}, {ones}, square, DType::fp32);
  return b.emit(Operator::_to_copy, Elementwise{square.elements(), 0}, {above}, square, DType::boolean);
}

// FusedScaleMaskSoftmax.forward_torch_softmax
TensorId probabilities(LayerBuilder& b, TensorId scores) {
  const DType dtype = b.dtype(scores);
  const TensorId wide = b.boolean("softmax_in_fp32") ? b.cast(scores, DType::fp32) : scores;
  const TensorId mask = causal_mask(b, b.shape(scores)[3]);
  const TensorId masked = aten::masked_fill(b, wide, mask, -10000, true);
  const TensorId wide_result = aten::softmax(b, masked, -1);
  const TensorId result = b.cast(wide_result, dtype);
  b.hold({masked, mask});
  return result;
}

void lower_attention(LayerBuilder& b) {
  const TensorId query = b.input(0), buffer = b.input(3);
  const Shape q = b.shape(query);
  if (q.rank() != 4) b.fail("expects queries, keys and values [tokens, batch, heads, head]");
  const std::int64_t s = q[0], batches = q[1] * q[2];
  const TensorId key = repeated(b, b.input(1), q[2]), value = repeated(b, b.input(2), q[2]);
  const TensorId rows = aten::reshape(b, query, {s, batches, q[3]});
  const TensorId columns = aten::view(b, key, {s, batches, q[3]});
  const TensorId scores =
      scores_of(b, buffer, aten::transpose(b, rows, 0, 1), aten::transpose(b, aten::transpose(b, columns, 0, 1), 1, 2));
  const TensorId probs =
      aten::dropout(b, probabilities(b, aten::view(b, scores, {q[1], q[2], s, s})), b.real("dropout"), b.training());
  const TensorId values = aten::transpose(b, aten::view(b, value, {s, batches, q[3]}), 0, 1);
  const TensorId product = aten::bmm(b, aten::view(b, probs, {batches, s, s}), values);
  const TensorId context =
      aten::contiguous(b, aten::permute(b, aten::view(b, product, {q[1], q[2], s, q[3]}), {2, 0, 1, 3}));
  b.output(aten::view(b, context, {s, q[1], q[2] * q[3]}));
  b.hold({scores, probs, values, rows, columns});
}

const LayerDef kLayers[] = {
    {.name = "MegatronRotaryTable",
     .summary = "the angle of every position and frequency, as Megatron-core makes them once",
     .math = "-> [tokens, 1, 1, head] in fp32, made by the first step and kept. The input is not read.",
     .parameters = {{"tokens", ParameterType::size, "", "of the sequence"},
                    {"head", ParameterType::size, "", "size of a head"}},
     .indices = true,
     .lower = lower_table,
     .example = {.call = "MegatronRotaryTable(10, 16)",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {10, 1, 1, 16},
                 .derivation = "nothing is computed in a step"}},
    {.name = "MegatronRotary",
     .summary = "rotary position embedding of queries or keys, as Megatron-core writes it",
     .math = "x [s, b, h, d], angles [s, 1, 1, d] -> x cos + rotate_half(x) sin, with cosines and sines made anew.\n"
             "Saved: both tables, in the type of x.",
     .min_inputs = 2,
     .lower = lower_rotary,
     .example = {.call = "MegatronRotary()",
                 .input_shapes = {{10, 2, 4, 16}, {10, 1, 1, 16}},
                 .saved_bytes = 1'280,
                 .derivation = "cosines and sines, 10*16*4 bytes each"}},
    {.name = "MegatronAttention",
     .summary = "Megatron-core's DotProductAttention: scores, a causal mask, softmax, and the product with the values",
     .math = "q [s, b, h, d], k and v [s, b, g, d], a buffer -> [s, b, h d]. forward 2 b h s^2 d multiply-adds.\n"
             "Saved: q, k and v, these repeated for each head, the mask, and the probabilities before and after they\n"
             "are converted back from fp32.",
     .parameters = {{"dropout", ParameterType::real, "0.0", "of the probabilities"},
                    {"softmax_in_fp32", ParameterType::boolean, "True", "attention_softmax_in_fp32"}},
     .min_inputs = 4,
     .lower = lower_attention,
     .example = {.call = "MegatronAttention()",
                 .input_shapes = {{10, 2, 4, 16}, {10, 2, 2, 16}, {10, 2, 2, 16}, {800}},
                 .output_shape = {10, 2, 64},
                 .forward_macs = 25'600,
                 .backward_macs = 51'200,
                 .saved_bytes = 18'660,
                 .derivation = "2*(2*4)*10*10*16 multiply-adds; q, and k and v for each head, 10*2*4*16*4 bytes each, "
                               "probabilities 2*4*10*10*4, and the mask, 100"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::megatron_attention
