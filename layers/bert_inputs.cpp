// AddPositions, BertIds, RobertaIds, BidirectionalMask, PaddingCheck: what Hugging Face's encoders look up and make
// before their first layer.
//
// transformers 5, models/bert/modeling_bert.py, BertEmbeddings.forward: token types are gathered from a buffer of zeros
// at the positions, one row that every sample shares. Without an attention mask no mask is made.
// transformers 4.56 cuts the buffer's row instead, and makes a mask of ones [batch, tokens] whose values decide: where
// they are not all ones, as with the recordings' memory of zeros, it is inverted and expanded to [batch, 1, tokens,
// tokens] numbers (modeling_attn_mask_utils.py, _prepare_4d_attention_mask_for_sdpa). For --attention eager it is
// numbers [batch, 1, 1, tokens] whatever the values (modeling_utils.py, get_extended_attention_mask).
//
// models/roberta/modeling_roberta.py, RobertaEmbeddings: positions start after padding_idx and padding keeps it, so
// they are counted in each sample, by a cumulative sum of a mask. Token types are BERT's.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::bert_inputs {
namespace {

TensorId gather(LayerBuilder& b, TensorId table, TensorId index) {
  const Shape shape = b.shape(index);
  const TensorId y = b.emit(Operator::gather, Copy{shape.elements()}, {table, index}, shape, b.dtype(table));
  b.attributes({{Attribute::dim, 1}});
  return y;
}

// The shape of the tokens, as many as the buffers have numbers for.
Shape tokens_of(const LayerBuilder& b, std::int64_t most) {
  const Shape ids = b.shape(b.input());
  if (ids.rank() != 2 || ids[1] > most)
    b.fail("expects tokens [batch, tokens] of at most " + std::to_string(most) + ", got " + to_string(ids));
  return ids;
}

TensorId first_of(LayerBuilder& b, TensorId buffer, std::int64_t tokens) {
  return b.alias(buffer, {1, tokens}, b.strides(buffer));
}

void lower_ids(LayerBuilder& b) {
  const std::int64_t most = b.size("max_positions");
  const Shape ids = tokens_of(b, most);
  const TensorId position_buffer = b.buffer("position_ids", {1, most}, DType::int64, {Initial::count});
  const TensorId type_buffer = b.buffer("token_type_ids", {1, most}, DType::int64);
  const TensorId positions = first_of(b, position_buffer, ids[1]);
  const TensorId types =
      b.before(kTransformers5) ? first_of(b, type_buffer, ids[1]) : gather(b, type_buffer, positions);
  b.outputs({aten::expand(b, types, ids), positions});
}

constexpr double kRobertaPadding = 1;  // padding_idx

// create_position_ids_from_input_ids: (cumsum(mask).type_as(mask) + 0) * mask, as int64, plus padding_idx.
TensorId positions_of(LayerBuilder& b, TensorId ids) {
  const Shape shape = b.shape(ids);
  const TensorId tokens =
      aten::no_grad(b, Operator::ne, {ids}, shape, DType::boolean, {{Attribute::other, kRobertaPadding}});
  const TensorId mask = aten::no_grad(b, Operator::to, {tokens}, shape, DType::int32);
  const TensorId counted = aten::no_grad(b, Operator::to, {aten::cumsum(b, mask, 1)}, shape, DType::int32);
  const TensorId shifted = aten::no_grad(b, Operator::add, {counted}, shape, DType::int32, {{Attribute::other, 0}});
  const TensorId numbers = aten::no_grad(b, Operator::mul, {shifted, mask}, shape, DType::int32);
  const TensorId wide = aten::no_grad(b, Operator::to, {numbers}, shape, DType::int64);
  const TensorId positions =
      aten::no_grad(b, Operator::add, {wide}, shape, DType::int64, {{Attribute::other, kRobertaPadding}});
  b.hold({mask, numbers});
  return positions;
}

void lower_roberta(LayerBuilder& b) {
  const std::int64_t most = b.size("max_positions");
  const Shape ids = tokens_of(b, most);
  (void)b.buffer("position_ids", {1, most}, DType::int64);
  const TensorId type_buffer = b.buffer("token_type_ids", {1, most}, DType::int64);
  const TensorId positions = positions_of(b, b.input());
  if (b.before(kTransformers5)) return b.outputs({aten::expand(b, first_of(b, type_buffer, ids[1]), ids), positions});
  const TensorId rows = aten::expand(b, type_buffer, {ids[0], most});
  b.outputs(
      {aten::no_grad(b, Operator::gather, {rows, positions}, ids, DType::int64, {{Attribute::dim, 1}}), positions});
}

constexpr double kPaddingToken = 0;  // BERT's pad_token_id

// 1 - mask expanded, as booleans, and filled with the least number.
TensorId inverted(LayerBuilder& b, TensorId ones, std::int64_t batch, std::int64_t tokens) {
  const DType dtype = b.run().precision;
  const Shape square{batch, 1, tokens, tokens};
  const TensorId expanded = aten::unsqueeze(b, aten::unsqueeze(b, ones, 1), 1);
  const TensorId minus = aten::no_grad(b, Operator::rsub, {expanded}, square, dtype, {{Attribute::other, 1}});
  const TensorId hidden = aten::no_grad(b, Operator::to, {minus}, square, DType::boolean);
  const TensorId mask =
      aten::no_grad(b, Operator::masked_fill, {minus, hidden}, square, dtype, {{Attribute::value, lowest(dtype)}});
  return mask;
}

// (1.0 - mask.to(dtype)) * min: one row a sample, which the scores are broadcast with.
TensorId extended(LayerBuilder& b, TensorId ones) {
  const DType dtype = b.run().precision;
  const Shape rows{b.shape(ones)[0], 1, 1, b.shape(ones)[1]};
  const TensorId viewed = b.alias(ones, rows, contiguous_strides(rows));
  const TensorId mask = dtype == DType::fp32 ? viewed : aten::no_grad(b, Operator::to, {viewed}, rows, dtype);
  const TensorId hidden = aten::no_grad(b, Operator::rsub, {mask}, rows, dtype, {{Attribute::other, 1}});
  const TensorId numbers = aten::no_grad(b, Operator::mul, {hidden}, rows, dtype, {{Attribute::other, lowest(dtype)}});
  b.hold({mask});
  return numbers;
}

// warn_if_padding_and_no_attention_mask: whether the first or last tokens are padding.
void look_for_padding(LayerBuilder& b, TensorId ids) {
  const std::int64_t batch = b.shape(ids)[0];
  const auto last = static_cast<double>(b.shape(ids)[1] - 1);
  const TensorId ends =
      aten::no_grad(b, Operator::from_host, {}, {2}, DType::int64, {{Attribute::value, last}, {Attribute::value, 0}});
  const TensorId tokens =
      aten::no_grad(b, Operator::index, {ids, ends}, {batch, 2}, DType::int64, {{Attribute::dim, 1}});
  const TensorId padding =
      aten::no_grad(b, Operator::eq, {tokens}, {batch, 2}, DType::boolean, {{Attribute::other, kPaddingToken}});
  const TensorId any = aten::no_grad(b, Operator::any, {padding}, {}, DType::boolean);
  b.hold({tokens, padding, any});
}

void lower_padding(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  if (b.before(kTransformers5)) look_for_padding(b, b.input());
  b.output(b.input());
}

void lower_mask(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  if (!b.before(kTransformers5)) return b.outputs({b.input(), b.input()});
  const std::int64_t batch = b.shape(b.input())[0], tokens = b.shape(b.input())[1];
  const TensorId ones = aten::no_grad(b, Operator::ones, {}, {batch, tokens}, DType::fp32);
  if (b.run().attention == Attention::eager) return b.outputs({b.boolean("rows") ? ones : extended(b, ones), ones});
  const TensorId same =
      aten::no_grad(b, Operator::eq, {ones}, {batch, tokens}, DType::boolean, {{Attribute::other, 1}});
  const TensorId all = aten::no_grad(b, Operator::all, {same}, {}, DType::boolean);
  b.hold({same, all});
  b.outputs({inverted(b, ones, batch, tokens), ones});
}

// `embeddings += position_embeddings` in transformers 4, a sum of its own in 5.
void lower_sum(LayerBuilder& b) {
  b.output(aten::binary(b, aten::Binary::add, b.input(0), b.input(1), b.before(kTransformers5)));
}

const LayerDef kLayers[] = {
    {.name = "AddPositions",
     .summary = "embeddings and position embeddings, added as BERT does",
     .math = "x + y; in place with PyTorch releases taken to run transformers 4. Saved: nothing.",
     .min_inputs = 2,
     .lower = lower_sum,
     .example = {.call = "AddPositions()",
                 .input_shapes = {{8, 128, 64}, {8, 128, 64}},
                 .derivation = "nothing is saved"}},
    {.name = "BertIds",
     .summary = "the default token types and positions of BERT, when none are passed",
     .math = "tokens [b, s] -> token types [b, s], one row expanded, and positions [1, s]. Buffers: two rows of "
             "max_positions\nint64.",
     .parameters = {{"max_positions", ParameterType::size, "", "longest sequence"}},
     .indices = true,
     .lower = lower_ids,
     .example = {.call = "BertIds(512)",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "PaddingCheck",
     .summary = "the check for padding that transformers 4 runs on the tokens",
     .math =
         "Hands on the tokens. With PyTorch releases taken to run transformers 4 it compares the first and last ones.",
     .indices = true,
     .lower = lower_padding,
     .example = {.call = "PaddingCheck()",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "BidirectionalMask",
     .summary = "the mask that Hugging Face's encoders make without padding",
     .math = "tokens [b, s] -> none with transformers 5: the tokens are handed on; numbers [b, 1, s, s] and the ones "
             "[b, s] they\nare made of with PyTorch releases taken to run transformers 4; with --attention eager [b, "
             "1, 1, s].",
     .parameters = {{"rows", ParameterType::boolean, "False",
                     "DistilBERT: transformers 4's eager attention is handed the ones"}},
     .indices = true,
     .lower = lower_mask,
     .example = {.call = "BidirectionalMask()",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "no mask is made"}},
    {.name = "RobertaIds",
     .summary = "the token types and positions that RoBERTa makes of its tokens",
     .math =
         "tokens [b, s] -> token types [b, s] and positions [b, s], int64, without a gradient. Buffers: two rows of\n"
         "max_positions int64.",
     .parameters = {{"max_positions", ParameterType::size, "", "rows of the table of positions"}},
     .indices = true,
     .lower = lower_roberta,
     .example = {.call = "RobertaIds(514)",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::bert_inputs
