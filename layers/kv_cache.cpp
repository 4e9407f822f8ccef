// KVCache, LastToken: what autoregressive generation adds to a model (--mode infer --phase prefill|decode).
//
// Hugging Face's caches (transformers/cache_utils.py). dynamic: keys and values are concatenated to what there was, so
// that a step of decoding holds the old and the new tensor of one layer at once. static: one tensor of the final
// length, written in place. paged: blocks of 16 tokens in a pool (vLLM's PagedAttention, arXiv:2309.06180), written in
// place. Decoding is planned at its last token. Elsewhere both layers hand on what they are given.

#include <array>

#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::kv_cache {
namespace {

using Part = Generation::Part;
using Kind = Generation::Cache;

constexpr std::int64_t kTokensOfBlock = 16;

Shape with_tokens(const Shape& each, std::int64_t tokens) {
  Shape out = each;
  out.set(-2, tokens);
  return out;
}

// The cache of one tensor, of which attention reads the first `read` tokens. index_copy_, and reshape_and_cache of a
// paged one, touch the rows of the new tokens alone (aten/src/ATen/native/cuda/IndexKernel.cu, index_copy_kernel_impl).
TensorId in_place(LayerBuilder& b, TensorId x, std::int64_t capacity, std::int64_t read) {
  const Shape each = b.shape(x);
  const TensorId cache = ModelBuilder(b).cache(with_tokens(each, capacity), b.dtype(x));
  const Strides strides = b.strides(cache);
  const TensorId rows = b.alias(cache, each, strides, (read - each[-2]) * strides[2]);
  b.emit_in_place(Operator::index_copy_, Copy{each.elements()}, {rows, x});
  return b.alias(cache, with_tokens(each, read), strides);
}

TensorId cached(LayerBuilder& b, TensorId x) {
  const Generation& g = b.run().generation;
  const Shape each = b.shape(x);
  const bool prefill = g.part == Part::prefill;
  const std::int64_t tokens = prefill ? each[-2] : checked_add(g.tokens(), -1);  // the last one made is never read
  if (g.cache == Kind::fixed) return in_place(b, x, checked_add(g.tokens(), -1), tokens);
  if (g.cache == Kind::paged) return in_place(b, x, round_up(checked_add(g.tokens(), -1), kTokensOfBlock), tokens);
  const Shape all = with_tokens(each, tokens);
  if (prefill) {
    const TensorId made = b.emit(Operator::cat, Copy{all.elements()}, {x}, all, b.dtype(x));
    ModelBuilder(b).keep_with_output(made);
    return made;
  }
  const TensorId before = ModelBuilder(b).cache(with_tokens(each, tokens - each[-2]), b.dtype(x));
  const TensorId made = b.emit(Operator::cat, Copy{all.elements()}, {before, x}, all, b.dtype(x));
  ModelBuilder(b).replace_buffer(before, made);
  return made;
}

// The cache lives as long as the output that has it, or else until the forward that made it returns.
void keep(LayerBuilder& b, TensorId t) {
  if (b.boolean("returned"))
    ModelBuilder(b).keep_with_output(t);
  else
    ModelBuilder(b).keep_in_forward(t);
}

// DynamicCache.update of a model called with use_cache=True: torch.cat of an empty tensor and x. Both empty tensors
// have the keys' type (lazy_initialization), which under autocast rotary tables make fp32, and not the values'.
TensorId copied(LayerBuilder& b, TensorId x) {
  const TensorId both[] = {x};
  const TensorId made = aten::cat(b, both, 2, b.dtype(b.input(0)));
  keep(b, made);
  return made;
}

// gradient_checkpointing_enable() turns use_cache off in training (transformers/modeling_layers.py).
bool checkpointed(const LayerBuilder& b) {
  using Checkpoint = CheckpointConfig::Kind;
  const Checkpoint kind = b.run().checkpoint.kind;
  return b.run().mode == Mode::train && kind != Checkpoint::as_written && kind != Checkpoint::none;
}

// DynamicSlidingWindowLayer.lazy_initialization: the length of its window, a tensor of one integer, goes to the device.
TensorId window_length(LayerBuilder& b) { return b.emit(Operator::_to_copy, Fill{1}, {}, Shape{}, DType::int64); }

// Cache.update's arguments, which its caller names until it binds the results, outlive both copies.
void update(LayerBuilder& b, TensorId (*copy)(LayerBuilder&, TensorId)) {
  const TensorId keys = copy(b, b.input(0));
  const TensorId values = copy(b, b.input(1));
  b.hold({b.input(0), b.input(1)});
  b.outputs({keys, values});
}

void lower_cache(LayerBuilder& b) {
  for (int i = 0; i < 2; ++i)
    if (b.shape(b.input(i)).rank() != 4)
      b.fail("expects keys and values [batch, heads, tokens, size], got " + to_string(b.shape(b.input(i))));
  if (b.run().generation.part != Part::none && !b.boolean("generates"))
    b.fail("generation of a model with an encoder is not planned: leave --phase out to plan one forward");
  if (b.run().generation.part == Part::none) {
    if (!b.boolean("copies") || checkpointed(b)) return b.outputs({b.input(0), b.input(1)});
    if (b.boolean("windowed")) keep(b, window_length(b));
    return update(b, copied);
  }
  update(b, cached);
}

void lower_last(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.shape(x).rank() < 2) b.fail("expects an input [batch, tokens, ...]");
  b.output(b.run().generation.part == Part::none ? x : aten::slice(b, x, 1, b.shape(x)[1] - 1, 1));
}

const LayerDef kLayers[] = {
    {.name = "KVCache",
     .summary = "the keys and values of earlier tokens, in generation",
     .math =
         "k, v [b, heads, tokens, size] -> the same of all tokens so far, as name.0 and name.1. With --phase prefill "
         "or\ndecode only; otherwise k and v themselves, or with copies=True, which is use_cache=True, copies that "
         "the\noutput keeps. 2 b heads tokens size elements a layer stay between steps.",
     .parameters = {{"copies", ParameterType::boolean, "False", "a cache is filled in every forward, in training too"},
                    {"windowed", ParameterType::boolean, "False",
                     "with copies: of a sliding window, whose length the cache has on the device"},
                    {"returned", ParameterType::boolean, "True", "with copies: the model's output has the cache"},
                    {"generates", ParameterType::boolean, "True",
                     "False: of an encoder-decoder, whose generation is not planned"}},
     .min_inputs = 2,
     .lower = lower_cache,
     .example = {.call = "KVCache()",
                 .input_shapes = {{2, 4, 16, 64}, {2, 4, 16, 64}},
                 .derivation = "no generation: its inputs"}},
    {.name = "LastToken",
     .summary = "in generation, only the last token",
     .math = "x [b, tokens, ...] -> x[:, -1:]: a view. With --phase prefill or decode only; otherwise x itself.",
     .lower = lower_last,
     .example = {.call = "LastToken()", .input_shapes = {{2, 16, 64}}, .derivation = "no generation: its input"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::kv_cache
