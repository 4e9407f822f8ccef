// PositionIds, CausalMask: what Hugging Face's decoders compute of their positions before the first layer.
//
// transformers/masking_utils.py, create_causal_mask: without an attention mask it looks for packed sequences in the
// positions. Where it finds none there is no mask for an SDPA kernel, which is then called with is_causal. Otherwise a
// boolean mask [batch, 1, tokens, tokens] is made of two conditions, same sequence and not later; eager attention gets
// it as numbers. transformers 4.56 does not look and makes its mask under vmap. Every tensor here is counted, however
// small: they decide which blocks the later ones are split from.
//
// A rank of context parallelism is given its positions. Those of two parts that are not neighbours do not count up, so
// that it makes the mask of a packed sequence, which attention then drops.

#include <array>

#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::hugging_face_mask {
namespace {

using aten::arange;
using aten::as_column;
using aten::as_row;
using aten::Compared;
using aten::no_grad;
using aten::shifted_arange;

void lower_positions(LayerBuilder& b) {
  if (b.context()) return b.output(b.context()->positions);
  const std::int64_t tokens = b.size("tokens");
  const TensorId ids = b.before(kTransformers5) ? arange(b, tokens) : shifted_arange(b, tokens);
  b.output(b.alias(ids, {1, tokens}, contiguous_strides({1, tokens})));
}

struct Sizes {
  std::int64_t batch = 1, tokens = 1;
  Shape each() const { return {batch, tokens}; }
  Shape square() const { return {batch, 1, tokens, tokens}; }
};

// Columns [from, from + count) of a row-major matrix.
TensorId columns(LayerBuilder& b, TensorId t, std::int64_t from, std::int64_t count) {
  return b.alias(t, {b.shape(t)[0], count}, b.strides(t), from);
}

// find_packed_sequence_indices: the number of the sequence that each token belongs to.
TensorId sequence_numbers(LayerBuilder& b, TensorId positions, const Sizes& n) {
  if (b.shape(positions)[0] == 1) positions = aten::expand(b, positions, n.each());
  const TensorId first =
      no_grad(b, Operator::sub, {columns(b, positions, 0, 1)}, {n.batch, 1}, DType::int64, {{Attribute::other, 1}});
  const TensorId both =
      no_grad(b, Operator::cat, {first, positions}, {n.batch, n.tokens + 1}, DType::int64, {{Attribute::dim, 1}});
  const TensorId steps =
      no_grad(b, Operator::sub, {columns(b, both, 1, n.tokens), columns(b, both, 0, n.tokens)}, n.each(), DType::int64);
  const TensorId changes = no_grad(b, Operator::ne, {steps}, n.each(), DType::boolean, {{Attribute::other, 1}});
  const TensorId numbers = aten::cumsum(b, changes, 1);
  if (!b.before(kTransformers5)) {
    const TensorId last = b.alias(numbers, {n.batch}, b.strides(numbers), n.tokens - 1);
    const TensorId zero = no_grad(b, Operator::eq, {last}, {n.batch}, DType::boolean, {{Attribute::other, 0}});
    const TensorId all = no_grad(b, Operator::all, {zero}, {}, DType::boolean);
    b.hold({zero, all});
  }
  b.hold({first, steps, numbers});
  return numbers;
}

Compared looked_up(LayerBuilder& b, TensorId table, const Sizes& n, TensorId batch, const Compared& index) {
  const bool both = n.batch > 1 || b.before(kTransformers5);
  const TensorId query = aten::looked_up(b, table, batch, index.query, n.each(), both);
  return {query, aten::looked_up(b, table, batch, index.key, n.each(), both)};
}

// transformers 5, sdpa_mask: the conditions one after the other, broadcast. Without packed sequences (`numbers` is
// kNone) every sample has the same mask, expanded to all of them.
TensorId boolean_mask(LayerBuilder& b, TensorId positions, TensorId numbers, const Sizes& n, std::int64_t window) {
  const TensorId batch = arange(b, n.batch);
  const TensorId head = arange(b, 1);
  const TensorId query = shifted_arange(b, n.tokens);
  const Compared index{query, shifted_arange(b, n.tokens)};
  TensorId mask = kNone;
  if (numbers != kNone) {
    const TensorId ones = no_grad(b, Operator::new_ones, {}, {}, DType::boolean);
    const Compared sequence = looked_up(b, numbers, n, batch, index);
    const TensorId same =
        no_grad(b, Operator::eq, {as_column(b, sequence.query, n.square()), as_row(b, sequence.key, n.square())},
                n.square(), DType::boolean);
    const TensorId first = no_grad(b, Operator::bit_and, {ones, same}, n.square(), DType::boolean);
    const Compared position = looked_up(b, positions, n, batch, index);
    const TensorId second = aten::not_later(b, position, n.square(), window);
    b.hold({position.query, position.key});
    mask = no_grad(b, Operator::bit_and, {first, second}, n.square(), DType::boolean);
  } else {
    mask = aten::expand(b, aten::not_later(b, index, {1, 1, n.tokens, n.tokens}, window), n.square());
  }
  b.hold({batch, head, index.query, index.key});
  return mask;
}

// transformers 4.56, sdpa_mask_recent_torch under vmap: what does not depend on the batch is computed without it.
TensorId boolean_mask_of_4(LayerBuilder& b, TensorId positions, TensorId numbers, const Sizes& n, std::int64_t window) {
  const TensorId key = arange(b, n.tokens);
  const TensorId batch = arange(b, n.batch);
  const TensorId head = arange(b, 1);
  const TensorId ones = no_grad(b, Operator::new_ones, {}, {n.tokens}, DType::boolean);
  const Shape square{n.tokens, n.tokens};
  const TensorId causal = aten::not_later(b, {positions, key}, square, window);
  const TensorId first = no_grad(b, Operator::bit_and, {ones, causal}, square, DType::boolean);
  const Compared sequence = looked_up(b, numbers, n, batch, {positions, key});
  const TensorId same =
      no_grad(b, Operator::eq, {as_column(b, sequence.query, n.square()), as_row(b, sequence.key, n.square())},
              n.square(), DType::boolean);
  const TensorId mask = no_grad(b, Operator::bit_and, {first, same}, n.square(), DType::boolean);
  b.hold({key, batch, head});
  return mask;
}

// The last rank's are neighbours.
bool has_two_parts(const LayerBuilder& b) {
  return b.context() && b.run().context_rank + 1 < b.run().context_ranks &&
         balances_context(b.shape(b.context()->positions)[1]);
}

void lower_mask(LayerBuilder& b) {
  const TensorId embeddings = b.input(0), positions = b.input(1);
  if (b.shape(embeddings).rank() < 2 || b.shape(positions).rank() != 2)
    b.fail("expects embeddings [batch, tokens, ...] and positions [1 or batch, tokens]");
  // What sequence parallelism shares are DTensors, whose sizes are those of all tokens.
  const std::int64_t parts = b.run().tensor_plan.sequence ? b.run().tensor_ranks : 1;
  const Sizes n{b.shape(embeddings)[0], parts * b.shape(embeddings)[1]};
  const bool is_generated = b.run().generation.part != Generation::Part::none;
  if (is_generated && b.boolean("eager"))
    b.fail("generation with masks of numbers is not planned: --phase of a model whose class has no SDPA");
  if (is_generated) return b.output(positions);  // generate() finds nothing masked
  const bool eager = b.run().attention == Attention::eager || b.boolean("eager");
  const bool old = b.before(kTransformers5);
  const bool looks = b.boolean("given_positions") || old;
  const bool packed = (looks && (b.boolean("packed") || has_two_parts(b))) || old;
  const std::int64_t window = b.given("sliding_window") ? b.size("sliding_window") : 0;
  const bool reaches_all = window == 0 || n.tokens < window;
  const TensorId numbers = looks ? sequence_numbers(b, positions, n) : kNone;
  if (!packed && !eager && reaches_all && b.boolean("skip")) return b.output(positions);
  TensorId mask = old ? boolean_mask_of_4(b, positions, numbers, n, window)
                      : boolean_mask(b, positions, packed ? numbers : kNone, n, window);
  if (eager) mask = aten::as_numbers(b, mask, n.square());
  if (packed) b.hold({numbers});
  b.output(mask);
}

const LayerDef kLayers[] = {
    {.name = "PositionIds",
     .summary = "the positions of a sequence's tokens, made in every forward",
     .math = "0 .. tokens - 1 as int64 [1, tokens]. No gradient.",
     .parameters = {{"tokens", ParameterType::size, "", "length of the sequence"}},
     .min_inputs = 0,
     .lower = lower_positions,
     .example = {.call = "PositionIds(10)",
                 .input_shapes = {},
                 .output_shape = {1, 10},
                 .derivation = "one row of positions, which every sample shares"}},
    {.name = "CausalMask",
     .summary = "the mask that Hugging Face decoders make from their positions",
     .math = "Embeddings [b, s, ...] (for their sizes) and positions [1, s] -> a mask [b, 1, s, s]: boolean for SDPA "
             "kernels,\nnumbers of the embeddings' type with --attention eager. Positions of sequences that are not "
             "packed count up,\nwhich PyTorch sees on a GPU: SDPA kernels then get no mask, and this layer hands on "
             "the positions, which checkpoints keep.\npacked=True: positions start anew within a sequence. "
             "transformers 4 makes its mask in "
             "both cases.",
     .parameters = {{"packed", ParameterType::boolean, "False", "whether positions start anew within a sequence"},
                    {"given_positions", ParameterType::boolean, "True",
                     "whether create_causal_mask is called with the positions; otherwise it does not look at them"},
                    {"sliding_window", ParameterType::size, "None", "how many tokens back attention reaches"},
                    {"eager", ParameterType::boolean, "False", "whatever --attention says: its class has no SDPA"},
                    {"skip", ParameterType::boolean, "True", "no mask where kernels need none (allow_is_causal_skip)"}},
     .min_inputs = 2,
     .indices = true,
     .lower = lower_mask,
     .example = {.call = "CausalMask(packed=True)",
                 .input_shapes = {{2, 10, 8}, {1, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {2, 1, 10, 10},
                 .derivation = "a boolean for every pair of tokens; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::hugging_face_mask
