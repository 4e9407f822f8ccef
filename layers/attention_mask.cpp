// AttentionMask: the mask that Hugging Face's models make of the attention_mask [batch, tokens] in a tokenizer's batch.
//
// transformers 5, masking_utils.py: create_causal_mask, create_sliding_window_causal_mask and
// create_bidirectional_mask. The attention_mask is converted to booleans. For an SDPA kernel its values decide: where
// no token is padding there is no mask, and a decoder's kernel is called with is_causal; fast_all sums the booleans,
// which PyTorch converts to int64 first, an encoder reduces them with all(). Otherwise conditions on the indices are
// combined one after the other and broadcast to [batch, 1, queries, keys]; eager attention gets numbers. Every tensor
// here is counted, however small: they decide which blocks the later ones are split from.

#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::attention_mask {
namespace {

using aten::no_grad;

struct Sizes {
  std::int64_t batch = 1, queries = 1, keys = 1;
  Shape whole() const { return {batch, 1, queries, keys}; }
};

Sizes sizes_of(const LayerBuilder& b) {
  const Shape embeddings = b.shape(b.input(0)), mask = b.shape(b.input(1));
  if (embeddings.rank() < 2 || mask.rank() != 2)
    b.fail("expects embeddings [batch, tokens, ...] and an attention_mask [batch, tokens], got " +
           to_string(embeddings) + " and " + to_string(mask));
  if (embeddings[0] != mask[0])
    b.fail("embeddings " + to_string(embeddings) + " and attention_mask " + to_string(mask) +
           " are of different batches");
  return {mask[0], embeddings[1], mask[1]};
}

TensorId booleans(LayerBuilder& b, TensorId mask) {
  return b.dtype(mask) == DType::boolean ? mask : no_grad(b, Operator::to, {mask}, b.shape(mask), DType::boolean);
}

// fast_all, or all(): a scalar whose value Python reads.
void look_for_padding(LayerBuilder& b, TensorId mask, bool causal) {
  if (!causal) {
    const Reduction all{.shape = b.shape(mask), .reduced = 3, .input = DType::boolean, .output = DType::boolean};
    b.hold({b.emit(Operator::all, all, {mask}, Shape{}, DType::boolean)});
    return;
  }
  const TensorId sum = aten::reduce(b, mask, 3, false, false);
  b.hold({no_grad(b, Operator::eq, {sum}, {}, DType::boolean, {{Attribute::other, b.elements(mask)}})});
}

// causal_mask_function or its sliding window, bidirectional_mask_function: q_idx >= 0.
TensorId pattern(LayerBuilder& b, const aten::Compared& index, const Sizes& n, bool causal, std::int64_t window) {
  const Shape all{1, 1, n.queries, n.keys};
  if (causal) return aten::not_later(b, index, all, window);
  return no_grad(b, Operator::ge, {aten::as_column(b, index.query, all)}, {1, 1, n.queries, 1}, DType::boolean,
                 {{Attribute::other, 0}});
}

// and_masks(pattern, padding_mask_function): padding_mask[batch_idx, kv_idx].
TensorId conditions(LayerBuilder& b, TensorId mask, const Sizes& n, bool causal, std::int64_t window) {
  const TensorId batch = aten::arange(b, n.batch);
  const TensorId head = aten::arange(b, 1);
  const TensorId query = aten::shifted_arange(b, n.queries);
  const TensorId key = aten::shifted_arange(b, n.keys);
  const TensorId ones = no_grad(b, Operator::new_ones, {}, {}, DType::boolean);
  const TensorId allowed = pattern(b, {query, key}, n, causal, window);
  const TensorId first = no_grad(b, Operator::bit_and, {ones, allowed}, b.shape(allowed), DType::boolean);
  const TensorId rows = b.alias(batch, {n.batch, 1, 1, 1}, contiguous_strides({n.batch, 1, 1, 1}));
  const TensorId columns = b.alias(key, {1, 1, 1, n.keys}, contiguous_strides({1, 1, 1, n.keys}));
  const TensorId seen = aten::looked_up(b, mask, rows, columns, {n.batch, 1, 1, n.keys}, n.batch > 1);
  const TensorId whole = no_grad(b, Operator::bit_and, {first, seen}, n.whole(), DType::boolean);
  b.hold({batch, head, query, key});
  return whole;
}

void lower(LayerBuilder& b) {
  const Sizes n = sizes_of(b);
  const bool causal = b.boolean("causal"), eager = b.run().attention == Attention::eager || b.boolean("eager");
  const std::int64_t window = b.given("sliding_window") ? b.size("sliding_window") : 0;
  if (b.run().generation.part != Generation::Part::none) return b.output(b.input(1));  // nothing is padded
  const TensorId mask = booleans(b, b.input(1));
  const bool reaches_all = window == 0 || n.keys < window;
  const bool skips = b.boolean("skip");
  if (skips && (causal ? !eager && reaches_all : true)) look_for_padding(b, mask, causal);
  if (skips && !b.boolean("padded") && reaches_all && !(causal && eager)) {
    b.hold({mask});
    return b.output(b.none_like(b.input(1)));
  }
  const TensorId whole = conditions(b, mask, n, causal, window);
  const TensorId result = eager ? aten::as_numbers(b, whole, n.whole()) : whole;
  b.hold({mask});
  b.output(result);
}

const LayerDef kLayers[] = {
    {.name = "AttentionMask",
     .summary = "the mask that Hugging Face models make from a batch's attention_mask",
     .math =
         "Embeddings [b, s, ...] (for their sizes) and attention_mask [b, t] -> a mask [b, 1, s, t]: boolean for SDPA\n"
         "kernels, numbers of the embeddings' type with eager or --attention eager. padded=False: no token is\n"
         "padding, as transformers finds on a GPU; SDPA kernels then get no mask: what this layer gives stands for\n"
         "None. As transformers 5 does it, whatever the release of PyTorch.",
     .parameters = {{"causal", ParameterType::boolean, "True", "later keys are masked, too"},
                    {"padded", ParameterType::boolean, "True", "whether any token of the batch is padding"},
                    {"eager", ParameterType::boolean, "False", "a mask of numbers, whatever --attention says"},
                    {"sliding_window", ParameterType::size, "None", "how many tokens back attention reaches"},
                    {"skip", ParameterType::boolean, "True",
                     "no mask where kernels need none (allow_is_causal_skip, allow_is_bidirectional_skip)"}},
     .min_inputs = 2,
     .indices = true,
     .lower = lower,
     .example = {.call = "AttentionMask()",
                 .input_shapes = {{2, 10, 8}, {2, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {2, 1, 10, 10},
                 .derivation = "a boolean for every pair of tokens; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::attention_mask
