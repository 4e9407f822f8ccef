// HuggingFaceClassificationLoss: the loss that a Hugging Face classifier computes within its forward.
//
// transformers/loss/loss_utils.py, ForSequenceClassificationLoss and fixed_cross_entropy: cross entropy of the logits,
// in their own type, and the labels, which are made with the batch.

#include "estimator/aten/cross_entropy.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(2, "[batch, classes]");
  const TensorId labels = b.target({b.shape(b.input())[0]}, DType::int64);
  b.output(aten::cross_entropy(b, b.input(), labels));
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

const LayerDef* const kLayers[] = {&kLoss};

}  // namespace

std::span<const LayerDef* const> hugging_face_classification_layers() { return kLayers; }

}  // namespace gpuplan::layers
