// FusedAttention: attention as an autograd function that keeps what a fused kernel keeps and has no scratch.
//
// The tensors of a hand-written kernel (arXiv:2205.14135, algorithms 1 and 4): the result lies as [b, l, h, d], as the
// gradients do, the log-sum-exp of each row is fp32, and backward computes the weights again. PyTorch's own kernels,
// with their workspaces and their choice between them, are ScaledDotProductAttention.

#include <array>
#include <cmath>
#include <string>

#include "estimator/base/integers.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::fused_attention {
namespace {

// [b, h, l, d] with [b, l, h, d] in memory.
OutputSpec rows_first(const Shape& shape, DType dtype) {
  const std::int64_t h = shape[1], l = shape[2], d = shape[3];
  Strides strides;
  const std::array<std::int64_t, 4> steps{l * h * d, d, h * d, 1};
  for (int i = 0; i < 4; ++i) strides.set(i, steps[static_cast<std::size_t>(i)]);
  return {shape, dtype, Placing::given, strides};
}

void check_shapes(const LayerBuilder& b) {
  const Shape q = b.shape(b.input(0));
  for (int i = 0; i < 3; ++i)
    if (b.shape(b.input(i)).rank() != 4) b.fail("expects queries, keys and values [batch, heads, tokens, size]");
  for (int i = 1; i < 3; ++i)
    if (!(b.shape(b.input(i)) == q))
      b.fail("expects queries, keys and values of one shape, got " + to_string(q) + " and " +
             to_string(b.shape(b.input(i))));
}

void lower(LayerBuilder& b) {
  check_shapes(b);
  const bool causal = b.boolean("causal");  // a mask takes no memory in a kernel and saves it no work here
  const TensorId q = b.input(0), k = b.input(1), v = b.input(2);
  const Shape shape = b.shape(q);
  const DType dtype = b.dtype(q);
  const OutputSpec like_q = rows_first(shape, dtype);
  const std::int64_t product = checked_mul(shape.elements(), shape[2]);  // multiply-adds of q k^T, and of p v
  const OutputSpec results[] = {like_q, {{shape[0], shape[1], shape[2]}, DType::fp32}};
  const std::initializer_list<AttributeValue> attributes{
      {Attribute::scale, 1 / std::sqrt(static_cast<double>(shape[3]))},
      {Attribute::is_causal, causal},
      {Attribute::dropout_p, 0}};
  const std::vector<TensorId> out =
      b.emit_many(Operator::fused_attention, OpaqueKernel{.macs = checked_mul(2, product)}, {q, k, v}, results);
  b.attributes(attributes);
  if (NodeBuilder node = b.node("FusedAttentionBackward", out[0], {q, k, v})) {
    const OpaqueKernel what{.macs = checked_mul(4, product), .recompute_macs = product};
    const OutputSpec gradients[] = {like_q, like_q, like_q};
    const std::vector<Operand> d =
        node.run_many(Operator::fused_attention_backward, what, {q, k, v, out[0], out[1], node.grad()}, gradients);
    node.attributes(attributes);
    for (int i = 0; i < 3; ++i)
      if (node.needs(b.input(i))) node.give(b.input(i), d[static_cast<std::size_t>(i)]);
  }
  b.output(out[0]);
}

const LayerDef kLayers[] = {
    {.name = "FusedAttention",
     .summary = "attention by a hand-written kernel without scratch",
     .math = "q, k, v [b, h, l, d] -> softmax(q k^T / sqrt(d)) v. 2 b h l l d multiply-adds, backward twice that; the\n"
             "scores computed again in backward are recompute_flops. Saved: q, k, v, the result and fp32 log-sum-exps.",
     .parameters = {{"causal", ParameterType::boolean, "True", "masks what comes later; takes no memory"}},
     .min_inputs = 3,
     .lower = lower,
     .example = {.call = "FusedAttention()",
                 .input_shapes = {{2, 4, 64, 32}, {2, 4, 64, 32}, {2, 4, 64, 32}},
                 .forward_macs = 2'097'152,
                 .backward_macs = 4'194'304,
                 .saved_bytes = 264'192,
                 .derivation = "2*2*4*64*64*32 multiply-adds; q, k, v and the result 2*4*64*32*4 bytes each, the "
                               "log-sum-exp 2*4*64*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::fused_attention
