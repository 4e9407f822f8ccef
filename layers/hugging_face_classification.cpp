// HuggingFaceClassificationLoss, HuggingFaceTokenLoss, HuggingFaceSpanLoss: the loss that a Hugging Face classifier of
// samples, of their tokens, or of a span of them computes within its forward.
//
// transformers/loss/loss_utils.py, ForSequenceClassificationLoss and fixed_cross_entropy: cross entropy of the logits,
// in their own type, and the labels, which are made with the batch; problem_type may ask for MSELoss (which one label
// does by itself) or BCEWithLogitsLoss instead. BertForMaskedLM and its like call CrossEntropyLoss on views of the
// logits and the labels themselves (transformers/models/bert/modeling_bert.py); ForTokenClassification, of the
// decoders, copies the logits to fp32 before. ForQuestionAnsweringLoss is half the sum of two cross entropies.

#include <string>

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/pointwise_loss.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::hugging_face_classification {
namespace {

TensorId pointwise(LayerBuilder& b, const aten::PointwiseLoss& loss, TensorId logits) {
  const TensorId x = b.autocast_fp32(logits);
  return aten::pointwise_loss(b, loss, x, b.target(b.shape(x), b.dtype(x)), true);
}

void lower(LayerBuilder& b) {
  b.expect_rank(2, "[batch, classes]");
  const Shape shape = b.shape(b.input());
  const std::string_view problem = b.word("problem_type");
  if (problem == "multi_label_classification") return b.output(pointwise(b, aten::kBceWithLogitsLoss, b.input()));
  if (problem == "regression")
    return b.output(pointwise(b, aten::kMseLoss, shape[1] == 1 ? aten::view(b, b.input(), {shape[0]}) : b.input()));
  if (problem != "single_label_classification")
    b.fail("problem_type", "unknown problem \"" + std::string(problem) + "\"",
           "expected single_label_classification, multi_label_classification or regression");
  b.output(aten::cross_entropy(b, b.input(), b.target({shape[0]}, DType::int64)));
}

void lower_tokens(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, classes]");
  const Shape shape = b.shape(b.input());
  const std::int64_t rows = shape.elements(0, 2);
  const TensorId labels = b.target({shape[0], shape[1]}, DType::int64);
  TensorId logits = aten::view(b, b.input(), {rows, shape[2]});
  const TensorId targets = aten::view(b, labels, {rows});
  if (b.boolean("fp32")) {
    logits = b.cast(logits, DType::fp32);
    b.output(aten::cross_entropy(b, logits, targets));
    return b.hold({logits});
  }
  b.output(aten::cross_entropy(b, logits, targets));
}

// Positions behind the last token are moved there and ignored: clamp makes new tensors, under the names of the labels.
void lower_span(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  const Shape each{b.shape(b.input())[0]};
  const auto ignored = static_cast<double>(b.shape(b.input())[1]);
  const TensorId given[] = {b.target(each, DType::int64), b.target(each, DType::int64)};
  std::vector<TensorId> clamped, losses;
  for (const TensorId positions : given)
    clamped.push_back(aten::no_grad(b, Operator::clamp, {positions}, each, DType::int64,
                                    {{Attribute::min, 0}, {Attribute::max, ignored}}));
  for (int i = 0; i < 2; ++i)
    losses.push_back(aten::cross_entropy(b, b.input(i), clamped[static_cast<std::size_t>(i)]));
  const TensorId sum = aten::add(b, losses[0], losses[1]);
  const TensorId mean = aten::binary_number(b, aten::Binary::div, sum, 2);
  b.hold({clamped[0], clamped[1], losses[0], losses[1]});
  b.output(mean);
}

const LayerDef kLayers[] = {
    {.name = "HuggingFaceClassificationLoss",
     .summary = "cross entropy of a classifier, within the model's forward",
     .math = "x [b, C], labels [b] int64 -> the mean of -log softmax(x)[label].\n"
             "Saved: the log-probabilities, the labels and the total weight. Of other problems MSELoss and\n"
             "BCEWithLogitsLoss, with labels of x's type and shape: x and the labels are saved.",
     .parameters = {{"problem_type", ParameterType::word, "single_label_classification",
                     "or multi_label_classification, or regression, which one label is by itself"}},
     .loss = true,
     .in_model = true,
     .lower = lower,
     .example = {.call = "HuggingFaceClassificationLoss()",
                 .input_shapes = {{8, 10}},
                 .output_shape = {},
                 .saved_bytes = 324,
                 .derivation = "log-probabilities of 8*10*4 bytes and the total weight, 4; the labels are an input"}},
    {.name = "HuggingFaceTokenLoss",
     .summary = "cross entropy of every token, within the model's forward",
     .math = "x [b, s, C], labels [b, s] int64 -> the mean of -log softmax(x)[label].\n"
             "Saved: the log-probabilities, the labels and the total weight.",
     .parameters = {{"fp32", ParameterType::boolean, "False", "the logits are copied to fp32 first"}},
     .loss = true,
     .in_model = true,
     .lower = lower_tokens,
     .example = {.call = "HuggingFaceTokenLoss()",
                 .input_shapes = {{2, 10, 16}},
                 .output_shape = {},
                 .saved_bytes = 1'284,
                 .derivation =
                     "2*10 rows of log-probabilities, 16*4 bytes each, and the total weight, 4; the labels are "
                     "an input"}},
    {.name = "HuggingFaceSpanLoss",
     .summary = "cross entropy of an answer's start and end positions, within the model's forward",
     .math = "start, end [b, s] (SpanLogits), their positions [b] int64 -> half the sum of the means of -log "
             "softmax(x)[p].\nSaved: for both the log-probabilities, the positions, clamped to 0 to s, and the total "
             "weight.",
     .min_inputs = 2,
     .loss = true,
     .in_model = true,
     .lower = lower_span,
     .example = {.call = "HuggingFaceSpanLoss()",
                 .input_shapes = {{4, 16}, {4, 16}},
                 .output_shape = {},
                 .saved_bytes = 584,
                 .derivation = "twice: log-probabilities of 4*16*4 bytes, 4 positions of 8, the total weight, 4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::hugging_face_classification
