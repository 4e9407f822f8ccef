// HuggingFaceClassificationLoss, HuggingFaceTokenLoss: the loss that a Hugging Face classifier of samples, or of their
// tokens, computes within its forward.
//
// transformers/loss/loss_utils.py, ForSequenceClassificationLoss and fixed_cross_entropy: cross entropy of the logits,
// in their own type, and the labels, which are made with the batch. BertForMaskedLM and its like call CrossEntropyLoss
// on views of the logits and the labels themselves (transformers/models/bert/modeling_bert.py).

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(2, "[batch, classes]");
  const TensorId labels = b.target({b.shape(b.input())[0]}, DType::int64);
  b.output(aten::cross_entropy(b, b.input(), labels));
}

void lower_tokens(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, classes]");
  const Shape shape = b.shape(b.input());
  const std::int64_t rows = shape.elements(0, 2);
  const TensorId labels = b.target({shape[0], shape[1]}, DType::int64);
  const TensorId logits = aten::view(b, b.input(), {rows, shape[2]});
  b.output(aten::cross_entropy(b, logits, aten::view(b, labels, {rows})));
}

const LayerDef kLoss{
    .name = "HuggingFaceClassificationLoss",
    .summary = "cross entropy of a classifier, within the model's forward",
    .math =
        "x [b, C], labels [b] int64 -> the mean of -log softmax(x)[label].\n"
        "Saved: the log-probabilities, the labels and the total weight.",
    .parameters = {},
    .loss = true,
    .in_model = true,
    .lower = lower,
    .example = {.call = "HuggingFaceClassificationLoss()",
                .input_shapes = {{8, 10}},
                .output_shape = {},
                .saved_bytes = 324,
                .derivation = "log-probabilities of 8*10*4 bytes and the total weight, 4; the labels are an input"},
};

const LayerDef kTokenLoss{
    .name = "HuggingFaceTokenLoss",
    .summary = "cross entropy of every token, within the model's forward",
    .math =
        "x [b, s, C], labels [b, s] int64 -> the mean of -log softmax(x)[label].\n"
        "Saved: the log-probabilities, the labels and the total weight.",
    .parameters = {},
    .loss = true,
    .in_model = true,
    .lower = lower_tokens,
    .example = {.call = "HuggingFaceTokenLoss()",
                .input_shapes = {{2, 10, 16}},
                .output_shape = {},
                .saved_bytes = 1'284,
                .derivation =
                    "2*10 rows of log-probabilities, 16*4 bytes each, and the total weight, 4; the labels are "
                    "an input"},
};

const LayerDef* const kLayers[] = {&kLoss, &kTokenLoss};

}  // namespace

std::span<const LayerDef* const> hugging_face_classification_layers() { return kLayers; }

}  // namespace gpuplan::layers
