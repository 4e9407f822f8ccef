// SliceLogits, CausalLMLoss: what a Hugging Face language model does around its head.
//
// hidden_states[:, slice_indices, :] takes all positions by default. Up to PyTorch 2.8 that makes three slices of whole
// dimensions, whose backward copies; in 2.15 it is the tensor itself. Where that changed is assumed.
//
// transformers/loss/loss_utils.py, ForCausalLMLoss: the logits are copied to fp32, the labels, which are the tokens of
// the input, are padded by one and shifted, and cross entropy runs over all positions of all samples.

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::causal_lm_loss {
namespace {

void lower_slice(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, features]");
  TensorId x = b.input();
  if (b.before(aten::kElidesFullSlices))
    for (int dim = 0; dim < 3; ++dim) x = aten::slice(b, x, dim, 0, b.shape(x)[dim]);
  b.output(x);
}

void lower(LayerBuilder& b) {
  if (b.context()) return b.output(aten::shifted_causal_lm_loss(b, b.input(), b.context()->shifted_labels));
  b.output(aten::causal_lm_loss(b, b.input(), ModelBuilder(b).labels(0)));
}

const LayerDef kLayers[] = {
    {.name = "SliceLogits",
     .summary = "the positions whose logits a Hugging Face language model computes: all of them",
     .math = "x [b, s, h] -> x. Saved: nothing. In older releases backward copies the gradient three times.",
     .lower = lower_slice,
     .example = {.call = "SliceLogits()",
                 .input_shapes = {{2, 10, 16}},
                 .derivation = "all positions; nothing is saved"}},
    {.name = "CausalLMLoss",
     .summary = "cross entropy of each token's prediction of the next one, within the model's forward",
     .math =
         "x [b, s, V], labels: the model's first input [b, s] -> the mean of -log softmax(x)[next token], in fp32.\n"
         "Saved: the log-probabilities in fp32, the shifted labels and the total weight.",
     .loss = true,
     .in_model = true,
     .lower = lower,
     .example = {.call = "CausalLMLoss()",
                 .input_shapes = {{2, 10, 16}},
                 .output_shape = {},
                 .saved_bytes = 1'444,
                 .derivation =
                     "2*10 rows: log-probabilities of 16*4 bytes each, labels of 8, and the total weight, 4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::causal_lm_loss
