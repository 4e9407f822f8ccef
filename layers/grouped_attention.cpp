// RepeatKV, GroupedQueryAttention: attention whose key and value heads each serve a group of query heads, as Hugging
// Face's Llama family calls it.
//
// With an SDPA kernel and a mask, keys and values are repeated into contiguous copies first, which the function holds
// until it returns (transformers/integrations/sdpa_attention.py); without one the kernel shares the heads itself
// (enable_gqa). With --attention eager the products, the mask, softmax in fp32 and dropout run one by one
// (transformers/models/llama/modeling_llama.py, eager_attention_forward).

#include <string>

#include "estimator/aten/attention.h"
#include "estimator/aten/eager_attention.h"
#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::grouped_attention {
namespace {

TensorId whole(LayerBuilder& b, TensorId x, int dim) {
  return b.before(aten::kElidesFullSlices) ? aten::slice(b, x, dim, 0, b.shape(x)[dim]) : x;
}

// x[:, :, None, :, :].expand(...).reshape(...) of [b, heads, s, d].
TensorId repeat_kv(LayerBuilder& b, TensorId x, std::int64_t times) {
  if (times == 1) return x;
  const Shape in = b.shape(x);
  TensorId wide = aten::unsqueeze(b, whole(b, whole(b, x, 0), 1), 2);
  wide = whole(b, whole(b, wide, 3), 4);
  wide = aten::expand(b, wide, {in[0], in[1], times, in[2], in[3]});
  return aten::reshape(b, wide, {in[0], checked_mul(in[1], times), in[2], in[3]});
}

std::int64_t groups(const LayerBuilder& b, TensorId q, TensorId k) {
  const std::int64_t heads = b.shape(q)[1], shared = b.shape(k)[1];
  if (heads % shared != 0)
    b.fail(std::to_string(heads) + " query heads do not divide into groups for " + std::to_string(shared) +
           " key and value heads");
  return heads / shared;
}

void lower_repeat(LayerBuilder& b) {
  b.expect_rank(4, "[batch, heads, tokens, head]");
  b.output(repeat_kv(b, b.input(), b.size("n_rep")));
}

TensorId kernel_attention(LayerBuilder& b, TensorId q, TensorId k, TensorId v, TensorId mask, double p) {
  const TensorId y = aten::scaled_dot_product_attention(b, {.query = q,
                                                            .key = k,
                                                            .value = v,
                                                            .mask = mask,
                                                            .dropout = b.training() ? p : 0,
                                                            .causal = mask == kNone && b.shape(q)[2] > 1});
  return aten::contiguous(b, aten::transpose(b, y, 1, 2));
}

void lower_attention(LayerBuilder& b) {
  const double p = b.real("dropout");
  if (!(p >= 0 && p < 1)) b.fail("dropout", "the share of dropped weights is out of range", "expected 0 <= p < 1");
  for (int i = 0; i < 3; ++i)
    if (b.shape(b.input(i)).rank() != 4) b.fail("expects queries, keys and values [batch, heads, tokens, head]");
  const TensorId q = b.input(0);
  const bool drops = b.run().context_ranks > 1;  // Accelerate's _attach_context_parallel_hooks
  const bool masked = !drops && b.input_count() == 4 && aten::is_attention_mask(b, b.input(3));
  const TensorId mask = masked ? b.input(3) : kNone;
  const bool eager = b.run().attention == Attention::eager || b.boolean("eager");
  const double softcap = b.given("softcap") ? b.real("softcap") : 0;
  if (b.given("softcap") && !(softcap > 0)) b.fail("softcap", "the bound is not positive", "expected None or a bound");
  if (softcap != 0 && !eager) b.fail("softcap", "softcap is not supported by SDPA kernels", "needs eager=True, too");
  const std::int64_t times = eager || mask != kNone ? groups(b, q, b.input(1)) : 1;
  const TensorId k = repeat_kv(b, b.input(1), times);
  const TensorId v = repeat_kv(b, b.input(2), times);
  if (eager && drops) b.fail("context parallelism is of SDPA kernels alone, and this is eager attention");
  if (eager) {
    const aten::EagerResult made = aten::eager_attention(b, {.query = q,
                                                             .key = k,
                                                             .value = v,
                                                             .mask = mask,
                                                             .dropout = p,
                                                             .softmax = aten::EagerSoftmax::fp32,
                                                             .softcap = softcap});
    ModelBuilder(b).return_beside(made.weights, 1);  // hidden_states, _ = self.self_attn(...) of the decoder's layer
    b.output(made.output);
  } else {
    b.output(kernel_attention(b, q, k, v, mask, p));
  }
  b.hold({k, v});
}

const LayerDef kLayers[] = {
    {.name = "RepeatKV",
     .summary = "every head n_rep times, in a contiguous copy",
     .math =
         "x [b, h, s, d] -> [b, h n_rep, s, d]; itself for n_rep = 1. Saved: nothing. Backward: a sum over the copies.",
     .parameters = {{"n_rep", ParameterType::size, "", "how many query heads share one head of x"}},
     .lower = lower_repeat,
     .example = {.call = "RepeatKV(4)",
                 .input_shapes = {{2, 2, 10, 64}},
                 .output_shape = {2, 8, 10, 64},
                 .derivation = "2*4 heads; nothing is saved"}},
    {.name = "GroupedQueryAttention",
     .summary = "attention of many query heads over fewer key and value heads, as Hugging Face's Llama family calls it",
     .math =
         "q [b, h, s, d], k and v [b, g, t, d], mask [b, 1, s, t] or none for a causal one -> [b, s, h, d].\n2 b h s "
         "t d multiply-adds. With a mask keys and values are repeated h / g times; the kernel saves q, k, v, its\n"
         "result, a number a row and the mask in q's type. With --attention eager the weights are saved instead.",
     .parameters = {{"dropout", ParameterType::real, "0.0", "share of attention weights that training sets to zero"},
                    {"eager", ParameterType::boolean, "False", "whatever --attention says: its class has no SDPA"},
                    {"softcap", ParameterType::real, "None", "eager: scores become softcap tanh(scores / softcap)"}},
     .min_inputs = 3,
     .max_inputs = 4,
     .lower = lower_attention,
     .example = {.call = "GroupedQueryAttention()",
                 .input_shapes = {{2, 4, 32, 64}, {2, 2, 32, 64}, {2, 2, 32, 64}},
                 .output_shape = {2, 32, 4, 64},
                 .forward_macs = 1'048'576,
                 .backward_macs = 2'097'152,
                 .saved_bytes = 197'648,
                 .derivation = "2*2*4*32*32*64 multiply-adds; q and the result of 2*4*32*64*4 bytes, k and v of half, "
                               "2*4*32 numbers of 4, and the random seed and offset of 8"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::grouped_attention
