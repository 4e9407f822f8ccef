// ScaledDotProductAttention: softmax(q k^T / sqrt(d) + mask) v, by the kernel that PyTorch chooses.
//
// Which one runs, what it allocates and what its autograd node keeps: estimator/operators/attention.h. --attention asks
// for one by name, as torch.nn.attention.sdpa_kernel does.

#include <string>

#include "estimator/aten/attention.h"

namespace gpuplan::layers::attention {
namespace {

void check_shapes(const LayerBuilder& b) {
  const Shape q = b.shape(b.input(0)), k = b.shape(b.input(1)), v = b.shape(b.input(2));
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank())
    b.fail("expects queries, keys and values [batch, heads, tokens, size], got " + to_string(q) + ", " + to_string(k) +
           " and " + to_string(v));
  if (q[-1] != k[-1])
    b.fail("queries of size " + std::to_string(q[-1]) + " against keys of size " + std::to_string(k[-1]));
  if (k[-2] != v[-2]) b.fail(std::to_string(k[-2]) + " keys against " + std::to_string(v[-2]) + " values");
  if (q[0] != k[0] || q[0] != v[0]) b.fail("the batches of queries, keys and values differ");
  if (q.rank() == 4 && (k[1] != v[1] || q[1] % k[1] != 0))
    b.fail(std::to_string(q[1]) + " query heads against " + std::to_string(k[1]) + " key and " + std::to_string(v[1]) +
           " value heads");
  if (q.rank() == 4 && q[1] != k[1] && k[1] != 1 && !b.boolean("enable_gqa"))
    b.fail(std::to_string(q[1]) + " query heads against " + std::to_string(k[1]) +
           " key heads; heads are shared with enable_gqa=True");
}

void lower(LayerBuilder& b) {
  check_shapes(b);
  const double p = b.real("dropout_p");
  if (!(p >= 0 && p < 1)) b.fail("dropout_p", "dropout_p is a probability", "expected 0 <= dropout_p < 1");
  const bool causal = b.boolean("is_causal");
  const TensorId mask = b.input_count() == 4 ? b.input(3) : kNone;
  if (causal && mask != kNone) b.fail("is_causal", "PyTorch takes a mask or is_causal=True, not both");
  b.output(aten::scaled_dot_product_attention(b, {.query = b.input(0),
                                                  .key = b.input(1),
                                                  .value = b.input(2),
                                                  .mask = mask,
                                                  .dropout = b.training() ? p : 0,
                                                  .causal = causal,
                                                  .grouped = b.boolean("enable_gqa")}));
}

const LayerDef kLayers[] = {
    {.name = "ScaledDotProductAttention",
     .summary = "softmax(q k^T / sqrt(d) + mask) v",
     .math =
         "q [b, h, l, d], k [b, g, s, d], v [b, g, s, e], mask [.., l, s] or none -> [b, h, l, e].\n"
         "forward b h l s (d + e) multiply-adds, backward twice that; the scores computed again in backward are\n"
         "recompute_flops. Saved by the fused kernels: q, k, v, the result, its log-sum-exp; by math the weights, too.",
     .parameters = {{"dropout_p", ParameterType::real, "0.0", "probability that a weight becomes 0, in training"},
                    {"is_causal", ParameterType::boolean, "False", "masks what comes later"},
                    {"enable_gqa", ParameterType::boolean, "False", "several query heads share a key head"}},
     .min_inputs = 3,
     .max_inputs = 4,
     .lower = lower,
     .example = {.call = "ScaledDotProductAttention(is_causal=True)",
                 .input_shapes = {{2, 4, 64, 32}, {2, 4, 64, 32}, {2, 4, 64, 32}},
                 .forward_macs = 2'097'152,
                 .backward_macs = 4'194'304,
                 .saved_bytes = 264'208,
                 .derivation = "2*4*64*64*(32 + 32) multiply-adds; q, k, v and the result 2*4*64*32*4 bytes each, the "
                               "log-sum-exp 2*4*64*4, and two 8-byte numbers of the random state"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::attention
