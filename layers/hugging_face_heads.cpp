// PooledLogits, SpanLogits: what Hugging Face's classifiers make of the logits of every token.
//
// transformers/modeling_layers.py, GenericForSequenceClassification.forward (GPT2ForSequenceClassification alike): the
// logits of the rightmost token that is no padding, found by argmax of the positions times a mask of the tokens.
// GenericForQuestionAnswering.forward (BertForQuestionAnswering alike): two columns, each copied for itself.

#include <array>

#include "estimator/aten/indexing.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::hugging_face_heads {
namespace {

// The first result is the pooled logits, the others are names that forward() has until it returns.
void lower_pooled(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, labels]");
  const Shape logits = b.shape(b.input()), ids = b.shape(b.input(1));
  if (ids.rank() != 2 || ids[0] != logits[0] || ids[1] != logits[1])
    b.fail("expects logits " + to_string(logits) + " of every token, and the tokens, not " + to_string(ids));
  const TensorId same =
      aten::no_grad(b, Operator::ne, {b.input(1)}, ids, DType::boolean, {{Attribute::other, b.real("padding")}});
  const TensorId mask = aten::no_grad(b, Operator::to, {same}, ids, DType::int32);
  const TensorId positions = aten::no_grad(b, Operator::arange, {}, {ids[1]}, DType::int32, {{Attribute::start, 0}});
  const TensorId marked = aten::no_grad(b, Operator::mul, {positions, mask}, ids, DType::int32);
  const TensorId last = aten::no_grad(b, Operator::argmax, {marked}, {ids[0]}, DType::int64, {{Attribute::dim, 1}});
  const TensorId samples = aten::no_grad(b, Operator::arange, {}, {ids[0]}, DType::int64, {{Attribute::start, 0}});
  const TensorId pooled = aten::index(b, b.input(), std::array{samples, last}, 0);
  b.outputs({pooled, mask, positions, last});
}

void lower_span(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, 2]");
  if (b.shape(b.input())[2] != 2)
    b.fail("expects two logits a token, of a span's start and of its end, got " + to_string(b.shape(b.input())));
  const std::vector<TensorId> columns =
      aten::split(b, b.input(), 2, std::array<std::int64_t, 2>{1, 1}, "SplitBackward0");
  const TensorId start = aten::contiguous(b, aten::squeeze(b, columns[0], 2));
  const TensorId end = aten::contiguous(b, aten::squeeze(b, columns[1], 2));
  ModelBuilder(b).keep_with_output(end);
  b.outputs({start, end});
}

const LayerDef kLayers[] = {
    {.name = "PooledLogits",
     .summary = "the logits of the last token that is not padding",
     .math =
         "x [b, s, C], tokens [b, s] -> [b, C] as name.0, and the mask [b, s], the positions [s] (both int32) and the\n"
         "last token of each sample [b] (int64), which forward() names, as name.1 to name.3. Saved: two rows of\n"
         "indices, int64. Backward: zeros of x, to which the gradient is added by a sort of the indices.",
     .parameters = {{"padding", ParameterType::real, "0", "the token that pads (pad_token_id); changes no size"}},
     .min_inputs = 2,
     .lower = lower_pooled,
     .example = {.call = "PooledLogits()",
                 .input_shapes = {{8, 16, 2}, {8, 16}},
                 .output_shape = {8, 2},
                 .saved_bytes = 128,
                 .derivation = "of 8 samples their number and the position of their last token, 8 bytes each"}},
    {.name = "SpanLogits",
     .summary = "the logits of each token's being the start, and the end, of an answer",
     .math = "x [b, s, 2] -> two copies [b, s], as name.0 and name.1. The output keeps both. Saved: nothing.",
     .lower = lower_span,
     .example = {.call = "SpanLogits()",
                 .input_shapes = {{4, 16, 2}},
                 .output_shape = {4, 16},
                 .derivation = "split and copies save nothing"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::hugging_face_heads
