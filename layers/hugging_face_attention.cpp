// HuggingFaceAttention: attention as transformers' models call it by their attention interface.
//
// transformers/integrations/sdpa_attention.py: scaled_dot_product_attention, then transpose(1, 2).contiguous(); causal
// where the model is and no mask was made. With --attention eager the model's own eager_attention_forward, one
// operation after the other: the queries times the transposed keys, the scaling, the mask, softmax, dropout, the
// values. In transformers 4.56 BERT and DistilBERT have classes for it, chosen when the model is built. Softmax is of
// the scores' type (bert), cast to the values' afterwards (gpt2), or in fp32 and cast to the queries' (vit).

#include <string>

#include "estimator/aten/attention.h"
#include "estimator/aten/eager_attention.h"
#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::hugging_face_attention {
namespace {

aten::EagerSoftmax softmax_of(const LayerBuilder& b) {
  const std::string_view how = b.word("softmax");
  if (how == "plain") return aten::EagerSoftmax::plain;
  if (how == "value") return aten::EagerSoftmax::value;
  if (how == "fp32") return aten::EagerSoftmax::fp32;
  b.fail("softmax", "unknown softmax \"" + std::string(how) + "\"", "expected plain, value or fp32");
}

aten::EagerClass class_of(const LayerBuilder& b) {
  const std::string_view name = b.word("transformers4");
  if (name != "interface" && name != "bert" && name != "distilbert")
    b.fail("transformers4", "unknown class \"" + std::string(name) + "\"", "expected interface, bert or distilbert");
  if (name == "interface" || !b.before(kTransformers5)) return aten::EagerClass::interface;
  return name == "bert" ? aten::EagerClass::bert : aten::EagerClass::distilbert;
}

// Blocks around the layer's whose forward names the weights. Of transformers 4's, BertLayer returns them beside its
// result, and BertEncoder names both until its next layer has run; DistilBERT's module returns none.
int frames_of_weights(const LayerBuilder& b, aten::EagerClass computed_by) {
  if (computed_by == aten::EagerClass::distilbert) return 0;
  return static_cast<int>(b.size("frames")) + (computed_by == aten::EagerClass::bert ? 1 : 0);
}

void lower(LayerBuilder& b) {
  const double p = b.real("dropout");
  if (!(p >= 0 && p < 1)) b.fail("dropout", "the share of dropped weights is out of range", "expected 0 <= p < 1");
  const aten::EagerSoftmax softmax = softmax_of(b);
  const aten::EagerClass computed_by = class_of(b);
  for (int i = 0; i < 3; ++i)
    if (b.shape(b.input(i)).rank() != 4) b.fail("expects queries, keys and values [batch, heads, tokens, head]");
  const TensorId q = b.input(0), k = b.input(1), v = b.input(2);
  TensorId mask = b.input_count() == 4 ? b.input(3) : kNone;
  const bool eager = b.run().attention == Attention::eager;
  const bool in_rows = eager && computed_by == aten::EagerClass::distilbert;  // its mask
  const bool unmasked = mask != kNone && !in_rows && !aten::is_attention_mask(b, mask);
  if (unmasked) mask = kNone;
  if (in_rows && mask == kNone) b.fail("expects a mask as the fourth input, which DistilBERT fills the scores with");
  if (eager) {
    const aten::EagerResult made = aten::eager_attention(
        b,
        {.query = q, .key = k, .value = v, .mask = mask, .dropout = p, .softmax = softmax, .computed_by = computed_by});
    for (const TensorId t : made.named) ModelBuilder(b).return_beside(t, 0);
    ModelBuilder(b).return_beside(made.weights, frames_of_weights(b, computed_by));
    return b.output(made.output);
  }
  const TensorId y =
      aten::scaled_dot_product_attention(b, {.query = q,
                                             .key = k,
                                             .value = v,
                                             .mask = mask,
                                             .dropout = b.training() ? p : 0,
                                             .causal = unmasked && b.boolean("causal") && b.shape(q)[2] > 1});
  b.output(aten::contiguous(b, aten::transpose(b, y, 1, 2)));
}

const LayerDef kLayers[] = {
    {.name = "HuggingFaceAttention",
     .summary = "attention as Hugging Face's encoders and GPT-2 call it",
     .math =
         "q, k, v [b, h, s, d] -> [b, s, h, d], with a mask as CausalMask makes it as the fourth input. 2 b h s s d\n"
         "multiply-adds. Saved: q, k, v, the result and a number a row; with --attention eager copies of q, k, v, the\n"
         "weights before and after dropout and its mask.",
     .parameters = {{"dropout", ParameterType::real, "0.0", "share of attention weights that training sets to zero"},
                    {"softmax", ParameterType::word, "plain",
                     "eager: plain, value (cast to the values' type) or fp32 (computed so, cast to the queries')"},
                    {"causal", ParameterType::boolean, "True", "causal, if there is no mask (fourth input)"},
                    {"frames", ParameterType::size, "1",
                     "eager: blocks around its own whose forward names the weights"},
                    {"transformers4", ParameterType::word, "interface",
                     "eager, with releases taken to run transformers 4: the class of its own, bert or distilbert"}},
     .min_inputs = 3,
     .max_inputs = 4,
     .lower = lower,
     .example = {.call = "HuggingFaceAttention()",
                 .input_shapes = {{2, 4, 32, 64}, {2, 4, 32, 64}, {2, 4, 32, 64}},
                 .output_shape = {2, 32, 4, 64},
                 .forward_macs = 1'048'576,
                 .backward_macs = 2'097'152,
                 .saved_bytes = 263'184,
                 .derivation =
                     "two products of 2*4*32*32*64; q, k, v and the result are 2*4*32*64*4 bytes each, a number a row "
                     "2*4*32*4, the kernel's two random numbers 16"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::hugging_face_attention
