// TERotary, TESequenceLengths, TEDotProductAttention: rotation and attention as Transformer Engine computes them for
// Megatron-core 0.16, in bf16: fused_rope (transformer_engine/pytorch/attention/rope.py) and FusedAttention, cuDNN's
// (dot_product_attention/backends.py, csrc/extensions/attention.cpp of 2.20), which it takes on Hopper before
// flash-attn, and without that package on Ampere, too.

#include <algorithm>
#include <array>
#include <vector>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"
#include "estimator/operators/transformer_engine.h"

namespace gpuplan::layers::transformer_engine_attention {
namespace {

namespace rules = gpuplan::transformer_engine;

void lower_rotary(LayerBuilder& b) {
  const TensorId x = b.input(0), angles = b.input(1);
  const Shape shape = b.shape(x);
  if (shape.rank() != 4 || shape[3] != b.shape(angles)[-1]) b.fail("expects [tokens, batch, heads, head], and a table");
  OpaqueKernel kernel;
  kernel.elementwise_flops = 6 * shape.elements();
  const TensorId y = b.emit(Operator::triton, kernel, {x, angles}, {shape, b.dtype(x), Placing::contiguous});
  if (NodeBuilder node = b.node("FusedRoPEFuncBackward", y, {x}))
    node.give(x, node.run(Operator::triton, kernel, {node.grad(), angles}, {shape, b.dtype(x), Placing::contiguous}));
  b.output(y);
}

// get_full_cu_seqlens() keeps one of each batch, and with ranks that share tokens _get_cu_seqlens_info_with_cp() those
// of their parts and half parts.
void lower_lengths(LayerBuilder& b) {
  const auto lengths = [&] { return ModelBuilder(b).constant(Shape{b.batch() + 1}, DType::int32); };
  const TensorId whole = lengths();
  if (b.size("ranks") > 1) b.hold({lengths(), lengths()});
  b.output(whole);
}

rules::AttentionSizes sizes_of(const LayerBuilder& b) {
  const Shape q = b.shape(b.input(0)), k = b.shape(b.input(1));
  if (q.rank() != 4 || k.rank() != 4) b.fail("expects queries, keys and values [tokens, batch, heads, head]");
  const std::int64_t widest = rules::widest_head(b.gpu());
  if (q[3] % 8 != 0 || q[3] > widest)
    b.fail("cuDNN's attention is planned with heads of 8, 16, ... " + std::to_string(widest) + ", not of " +
           std::to_string(q[3]));
  return {.batch = q[1], .tokens = q[0], .heads = q[2], .groups = k[2], .size = q[3]};
}

OpaqueKernel kernel_of(const ScratchProgram& program, const rules::AttentionSizes& s) {
  OpaqueKernel kernel = aten::opaque_kernel(program);
  for (const std::int64_t factor : {s.batch * s.heads, s.tokens, s.tokens, 2 * s.size})
    kernel.macs = checked_mul(std::max<std::int64_t>(kernel.macs, 1), factor);
  return kernel;
}

// The result, the generator's state, a workspace while it runs, and the softmax's sums in fp32.
std::vector<TensorId> forward(LayerBuilder& b, const std::array<TensorId, 3>& qkv, const rules::AttentionSizes& s) {
  ScratchProgram program;
  ScratchWriter writer(program);
  writer.result(2);
  const std::int64_t workspace = writer.allocate(rules::attention_workspace(b.gpu()));
  writer.result();
  writer.release(workspace);
  const std::array<OutputSpec, 3> outputs{
      OutputSpec{b.shape(qkv[0]), b.dtype(qkv[0]), Placing::contiguous}, OutputSpec{Shape{2}, DType::int64},
      OutputSpec{Shape{s.batch, s.heads, s.tokens, 1}, DType::fp32, Placing::contiguous}};
  return b.emit_many(Operator::triton, kernel_of(program, s), {qkv[0], qkv[1], qkv[2], b.input(3)}, outputs);
}

std::vector<Operand> backward(NodeBuilder& node, const LayerBuilder& b, const std::array<TensorId, 3>& qkv,
                              const std::vector<TensorId>& results, const rules::AttentionSizes& s) {
  ScratchProgram program;
  ScratchWriter writer(program);
  writer.result(3);
  writer.use(rules::attention_backward_workspace(s, b.gpu()));
  OpaqueKernel kernel = kernel_of(program, s);
  kernel.recompute_macs = kernel.macs / 2;
  kernel.macs = checked_mul(kernel.macs, 2);
  std::vector<OutputSpec> outputs;
  for (const TensorId t : qkv) outputs.push_back({b.shape(t), b.dtype(t), Placing::contiguous});
  std::vector<Operand> reads{node.contiguous(node.grad())};
  reads.insert(reads.end(), qkv.begin(), qkv.end());
  reads.insert(reads.end(), results.begin(), results.end());
  return node.run_many(Operator::triton, kernel, reads, outputs);
}

void lower_attention(LayerBuilder& b) {
  const rules::AttentionSizes sizes = sizes_of(b);
  // get_qkv_layout() finds none in which all three lie in one storage: each is made contiguous.
  std::array<TensorId, 3> qkv{};
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = aten::contiguous(b, b.input(static_cast<int>(i)));
  const std::vector<TensorId> results = forward(b, qkv, sizes);
  if (NodeBuilder node = b.node("FusedAttnFuncBackward", results[0], {qkv[0], qkv[1], qkv[2]})) {
    const std::vector<Operand> gradients = backward(node, b, qkv, results, sizes);
    for (std::size_t i = 0; i < qkv.size(); ++i) node.give(qkv[i], gradients[i]);
  }
  b.output(aten::view(b, results[0], {sizes.tokens, sizes.batch, checked_mul(sizes.heads, sizes.size)}));
}

const LayerDef kLayers[] = {
    {.name = "TERotary",
     .summary = "rotary position embedding of queries or keys by Transformer Engine's kernel",
     .math = "x [s, b, h, d], angles [s, 1, 1, d] -> x cos + rotate_half(x) sin, of a kernel. Saved: the angles.",
     .min_inputs = 2,
     .lower = lower_rotary,
     .example = {.call = "TERotary()",
                 .input_shapes = {{10, 2, 4, 16}, {10, 1, 1, 16}},
                 .saved_bytes = 640,
                 .derivation = "the angles, 10*16*4 bytes"}},
    {.name = "TESequenceLengths",
     .summary = "where each sample begins, as Transformer Engine makes it once for attention of whole samples",
     .math = "x -> [batch + 1] in int32, made by the first step and kept. x is not read.",
     .parameters = {{"ranks", ParameterType::size, "1", "that share the tokens of each sample"}},
     .indices = true,
     .lower = lower_lengths,
     .example = {.call = "TESequenceLengths()",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {3},
                 .derivation = "of a batch of 2; nothing is computed"}},
    {.name = "TEDotProductAttention",
     .summary = "causal attention by cuDNN, as Transformer Engine calls it for Megatron-core",
     .math =
         "q [s, b, h, d], k and v [s, b, g, d], lengths [b + 1] -> [s, b, h d]. forward 2 b h s^2 d multiply-adds.\n"
         "Saved: q, k and v, contiguous, the result, a sum a row and head in fp32, and the generator's state.",
     .min_inputs = 4,
     .indices = true,
     .lower = lower_attention,
     .example = {.call = "TEDotProductAttention()",
                 .input_shapes = {{10, 2, 4, 16}, {10, 2, 2, 16}, {10, 2, 2, 16}, {3}},
                 .output_shape = {10, 2, 64},
                 .forward_macs = 25'600,
                 .backward_macs = 51'200,
                 .saved_bytes = 15'696,
                 .derivation =
                     "2*(2*4)*10*10*16 multiply-adds; q and the result 10*2*4*16*4 bytes each, k and v half of "
                     "that, sums 2*4*10*4, the state 16"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::transformer_engine_attention
