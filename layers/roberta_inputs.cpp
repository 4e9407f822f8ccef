// RobertaIds: the positions that RoBERTa counts from its tokens, and the token types it looks up when it is given none.
//
// transformers 5, models/roberta/modeling_roberta.py, RobertaEmbeddings: positions start after padding_idx and padding
// keeps it, so they are counted in each sample, by a cumulative sum of a mask. Token types are gathered from a buffer
// of zeros at the positions; transformers 4.56 cuts the buffer's row instead.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::roberta_inputs {
namespace {

constexpr double kPadding = 1;  // padding_idx

// create_position_ids_from_input_ids: (cumsum(mask).type_as(mask) + 0) * mask, as int64, plus padding_idx.
TensorId positions_of(LayerBuilder& b, TensorId ids) {
  const Shape shape = b.shape(ids);
  const TensorId tokens = aten::no_grad(b, Operator::ne, {ids}, shape, DType::boolean, {{Attribute::other, kPadding}});
  const TensorId mask = aten::no_grad(b, Operator::to, {tokens}, shape, DType::int32);
  const TensorId counted = aten::no_grad(b, Operator::to, {aten::cumsum(b, mask, 1)}, shape, DType::int32);
  const TensorId shifted = aten::no_grad(b, Operator::add, {counted}, shape, DType::int32, {{Attribute::other, 0}});
  const TensorId numbers = aten::no_grad(b, Operator::mul, {shifted, mask}, shape, DType::int32);
  const TensorId wide = aten::no_grad(b, Operator::to, {numbers}, shape, DType::int64);
  const TensorId positions =
      aten::no_grad(b, Operator::add, {wide}, shape, DType::int64, {{Attribute::other, kPadding}});
  b.hold({mask, numbers});
  return positions;
}

void lower(LayerBuilder& b) {
  const std::int64_t most = b.size("max_positions");
  const Shape ids = b.shape(b.input());
  if (ids.rank() != 2 || ids[1] > most)
    b.fail("expects tokens [batch, tokens] of at most " + std::to_string(most) + ", got " + to_string(ids));
  (void)b.buffer("position_ids", {1, most}, DType::int64);
  const TensorId type_buffer = b.buffer("token_type_ids", {1, most}, DType::int64);
  const TensorId positions = positions_of(b, b.input());
  if (b.before(kTransformers5)) {
    const TensorId row = b.alias(type_buffer, {1, ids[1]}, contiguous_strides({1, most}));
    return b.outputs({aten::expand(b, row, ids), positions});
  }
  const TensorId rows = aten::expand(b, type_buffer, {ids[0], most});
  b.outputs(
      {aten::no_grad(b, Operator::gather, {rows, positions}, ids, DType::int64, {{Attribute::dim, 1}}), positions});
}

const LayerDef kLayers[] = {
    {.name = "RobertaIds",
     .summary = "the token types and positions that RoBERTa makes of its tokens",
     .math =
         "tokens [b, s] -> token types [b, s] and positions [b, s], int64, without a gradient. Buffers: two rows of\n"
         "max_positions int64.",
     .parameters = {{"max_positions", ParameterType::size, "", "rows of the table of positions"}},
     .indices = true,
     .lower = lower,
     .example = {.call = "RobertaIds(514)",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::roberta_inputs
