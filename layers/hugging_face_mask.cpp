// PositionIds, CausalMask: what Hugging Face's decoders compute of their positions before the first layer.
//
// transformers/masking_utils.py, create_causal_mask: without an attention mask it looks for packed sequences in the
// positions. Where it finds none there is no mask for an SDPA kernel, which is then called with is_causal. Otherwise a
// boolean mask [batch, 1, tokens, tokens] is made of two conditions, same sequence and not later; eager attention gets
// it as numbers. transformers 4.56 does not look and makes its mask under vmap. Every tensor here is counted, however
// small: they decide which blocks the later ones are split from.

#include <array>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers {
namespace {

TensorId make(LayerBuilder& b, std::string_view name, std::initializer_list<TensorId> reads, const Shape& shape,
              DType dtype, std::initializer_list<double> numbers = {}) {
  return aten::no_grad(b, name, std::span(reads.begin(), reads.size()), shape, dtype, numbers);
}

TensorId arange(LayerBuilder& b, std::int64_t end) { return make(b, "aten::arange", {}, {end}, DType::int64, {0}); }
// arange(end) + offset
TensorId shifted_arange(LayerBuilder& b, std::int64_t end) {
  return make(b, "aten::add", {arange(b, end)}, {end}, DType::int64, {0});
}

void lower_positions(LayerBuilder& b) {
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
  const TensorId first = make(b, "aten::sub", {columns(b, positions, 0, 1)}, {n.batch, 1}, DType::int64, {1});
  const TensorId both = make(b, "aten::cat", {first, positions}, {n.batch, n.tokens + 1}, DType::int64, {1});
  const TensorId steps =
      make(b, "aten::sub", {columns(b, both, 1, n.tokens), columns(b, both, 0, n.tokens)}, n.each(), DType::int64);
  const TensorId changes = make(b, "aten::ne", {steps}, n.each(), DType::boolean, {1});
  const TensorId numbers = aten::cumsum(b, changes, 1);
  if (!b.before(kTransformers5)) {
    const TensorId last = b.alias(numbers, {n.batch}, b.strides(numbers), n.tokens - 1);
    const TensorId zero = make(b, "aten::eq", {last}, {n.batch}, DType::boolean, {0});
    const TensorId all = make(b, "aten::all", {zero}, {}, DType::boolean);
    b.hold({zero, all});
  }
  b.hold({first, steps, numbers});
  return numbers;
}

// table[batch_index, token_index]: index tensors that do not have the broadcast shape are copied to it first.
TensorId looked_up(LayerBuilder& b, TensorId table, TensorId batch_index, TensorId token_index, const Sizes& n) {
  std::vector<OutputSpec> made(n.batch > 1 || b.before(kTransformers5) ? 3 : 2, {n.each(), DType::int64});
  return b.emit_many("aten::index", Copy{n.each().elements()}, {table, batch_index, token_index}, made).back();
}

// What a query and a key are compared by.
struct Compared {
  TensorId query = kNone, key = kNone;
};

Compared looked_up(LayerBuilder& b, TensorId table, const Sizes& n, TensorId batch, const Compared& index) {
  const TensorId query = looked_up(b, table, batch, index.query, n);
  return {query, looked_up(b, table, batch, index.key, n)};
}

// [..., tokens] as [..., tokens, 1] and as [..., 1, tokens], of as many dimensions as `to`.
TensorId as_row(LayerBuilder& b, TensorId t, const Shape& to) {
  const Shape from = b.shape(t);
  Shape shape;
  Strides strides;
  const std::int64_t rows = from.rank() > 1 ? from[0] : 1;
  for (int i = 0; i < to.rank(); ++i) {
    shape.push_back(i == 0 && to.rank() > 2 ? rows : i + 1 == to.rank() ? from[-1] : 1);
    strides.set(i, i + 1 == to.rank() ? 1 : from[-1]);
  }
  return b.alias(t, shape, strides);
}
TensorId as_column(LayerBuilder& b, TensorId t, const Shape& to) {
  return aten::transpose(b, as_row(b, t, to), -2, -1);
}

// and_masks(sliding_window_overlay, causal_mask_function): not later, and within the window where there is one.
TensorId past(LayerBuilder& b, Compared c, const Shape& shape, std::int64_t window) {
  c = {as_column(b, c.query, shape), as_row(b, c.key, shape)};
  if (window == 0) return make(b, "aten::le", {c.key, c.query}, shape, DType::boolean);
  const TensorId ones = make(b, "aten::new_ones", {}, {}, DType::boolean);
  const TensorId first = make(b, "aten::sub", {c.query}, b.shape(c.query), DType::int64, {static_cast<double>(window)});
  const TensorId within = make(b, "aten::gt", {c.key, first}, shape, DType::boolean);
  const TensorId all = make(b, "aten::__and__", {ones, within}, shape, DType::boolean);
  const TensorId earlier = make(b, "aten::le", {c.key, c.query}, shape, DType::boolean);
  return make(b, "aten::__and__", {all, earlier}, shape, DType::boolean);
}

// transformers 5, sdpa_mask: the conditions one after the other, broadcast. Without packed sequences (`numbers` is
// kNone) every sample has the same mask.
TensorId boolean_mask(LayerBuilder& b, TensorId positions, TensorId numbers, const Sizes& n, std::int64_t window) {
  const TensorId batch = arange(b, n.batch);
  const TensorId head = arange(b, 1);
  const TensorId query = shifted_arange(b, n.tokens);
  const Compared index{query, shifted_arange(b, n.tokens)};
  TensorId mask = kNone;
  if (numbers != kNone) {
    const TensorId ones = make(b, "aten::new_ones", {}, {}, DType::boolean);
    const Compared sequence = looked_up(b, numbers, n, batch, index);
    const TensorId same =
        make(b, "aten::eq", {as_column(b, sequence.query, n.square()), as_row(b, sequence.key, n.square())}, n.square(),
             DType::boolean);
    const TensorId first = make(b, "aten::__and__", {ones, same}, n.square(), DType::boolean);
    const Compared position = looked_up(b, positions, n, batch, index);
    const TensorId second = past(b, position, n.square(), window);
    b.hold({position.query, position.key});
    mask = make(b, "aten::__and__", {first, second}, n.square(), DType::boolean);
  } else {
    mask = past(b, index, {1, 1, n.tokens, n.tokens}, window);
  }
  b.hold({batch, head, index.query, index.key});
  return mask;
}

// transformers 4.56, sdpa_mask_recent_torch under vmap: what does not depend on the batch is computed without it.
TensorId boolean_mask_of_4(LayerBuilder& b, TensorId positions, TensorId numbers, const Sizes& n, std::int64_t window) {
  const TensorId key = arange(b, n.tokens);
  const TensorId batch = arange(b, n.batch);
  const TensorId head = arange(b, 1);
  const TensorId ones = make(b, "aten::new_ones", {}, {n.tokens}, DType::boolean);
  const Shape square{n.tokens, n.tokens};
  const TensorId causal = past(b, {positions, key}, square, window);
  const TensorId first = make(b, "aten::__and__", {ones, causal}, square, DType::boolean);
  const Compared sequence = looked_up(b, numbers, n, batch, {positions, key});
  const TensorId same =
      make(b, "aten::eq", {as_column(b, sequence.query, n.square()), as_row(b, sequence.key, n.square())}, n.square(),
           DType::boolean);
  const TensorId mask = make(b, "aten::__and__", {first, same}, n.square(), DType::boolean);
  b.hold({key, batch, head});
  return mask;
}

// eager_mask: 0 where attended, the least number elsewhere.
TensorId numeric_mask(LayerBuilder& b, TensorId mask, const Sizes& n) {
  const DType dtype = b.run().precision;
  const TensorId zero = make(b, "aten::zeros", {}, {}, dtype);
  const OutputSpec results[] = {{Shape{}, dtype}, {n.square(), dtype}};  // torch.where makes a tensor of its number
  const TensorId y = b.emit_many("aten::where", Elementwise{n.square().elements()}, {mask, zero}, results)[1];
  b.numbers({lowest(dtype), 2});
  return y;
}

void lower_mask(LayerBuilder& b) {
  const TensorId embeddings = b.input(0), positions = b.input(1);
  if (b.shape(embeddings).rank() < 2 || b.shape(positions).rank() != 2)
    b.fail("expects embeddings [batch, tokens, ...] and positions [1 or batch, tokens]");
  const Sizes n{b.shape(embeddings)[0], b.shape(embeddings)[1]};
  if (b.run().generation.part != Generation::Part::none) return b.output(positions);  // generate() finds nothing masked
  const bool eager = b.run().attention == Attention::eager;
  const bool old = b.before(kTransformers5);
  const bool looks = b.boolean("given_positions") || old;
  const bool packed = (looks && b.boolean("packed")) || old;
  const std::int64_t window = b.given("sliding_window") ? b.size("sliding_window") : 0;
  const bool reaches_all = window == 0 || n.tokens < window;
  const TensorId numbers = looks ? sequence_numbers(b, positions, n) : kNone;
  if (!packed && !eager && reaches_all) return b.output(positions);
  TensorId mask = old ? boolean_mask_of_4(b, positions, numbers, n, window)
                      : boolean_mask(b, positions, packed ? numbers : kNone, n, window);
  if (eager) mask = numeric_mask(b, mask, n);
  if (packed) b.hold({numbers});
  b.output(mask);
}

const LayerDef kPositionIds{
    .name = "PositionIds",
    .summary = "the positions of a sequence's tokens, made in every forward",
    .math = "0 .. tokens - 1 as int64 [1, tokens]. No gradient.",
    .parameters = {{"tokens", ParameterType::size, "", "length of the sequence"}},
    .min_inputs = 0,
    .max_inputs = 0,
    .lower = lower_positions,
    .example = {.call = "PositionIds(10)",
                .input_shapes = {},
                .output_shape = {1, 10},
                .derivation = "one row of positions, which every sample shares"},
};

const LayerDef kCausalMask{
    .name = "CausalMask",
    .summary = "the mask that Hugging Face's decoders make of their positions",
    .math =
        "Embeddings [b, s, ...] (for their sizes) and positions [1, s] -> a mask [b, 1, s, s]: boolean for SDPA "
        "kernels,\n"
        "numbers of the embeddings' type with --attention eager. packed=False: sequences are not packed, as PyTorch\n"
        "finds on a GPU; SDPA kernels then get no mask, and this layer hands on the positions.",
    .parameters = {{"packed", ParameterType::boolean, "True", "whether positions start anew within a sequence"},
                   {"given_positions", ParameterType::boolean, "True",
                    "whether create_causal_mask is called with the positions; otherwise it does not look at them"},
                   {"sliding_window", ParameterType::size, "None", "how many tokens back attention reaches"}},
    .min_inputs = 2,
    .max_inputs = 2,
    .indices = true,
    .lower = lower_mask,
    .example = {.call = "CausalMask()",
                .input_shapes = {{2, 10, 8}, {1, 10}},
                .input_dtype = DType::int64,
                .output_shape = {2, 1, 10, 10},
                .derivation = "a boolean for every pair of tokens; nothing is saved"},
};

const LayerDef* const kLayers[] = {&kPositionIds, &kCausalMask};

}  // namespace

std::span<const LayerDef* const> hugging_face_mask_layers() { return kLayers; }

}  // namespace gpuplan::layers
