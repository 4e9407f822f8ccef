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

// pad(labels, (0, 1), value=-100)[..., 1:].contiguous(): a copy, unless one row already is contiguous. `padded` is the
// name that the loss function holds.
TensorId shifted(LayerBuilder& b, TensorId labels, TensorId& padded) {
  const std::int64_t samples = b.shape(labels)[0], tokens = b.shape(labels)[1];
  padded = b.emit(Operator::constant_pad_nd, Copy{b.elements(labels)}, {labels}, {samples, tokens + 1}, DType::int64);
  b.attributes({{Attribute::before, 0},
                {Attribute::after, 0},
                {Attribute::before, 0},
                {Attribute::after, 1},
                {Attribute::value, -100}});
  return aten::contiguous(b, aten::slice(b, padded, 1, 1, tokens));
}

void lower_slice(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, features]");
  TensorId x = b.input();
  if (b.before(aten::kElidesFullSlices))
    for (int dim = 0; dim < 3; ++dim) x = aten::slice(b, x, dim, 0, b.shape(x)[dim]);
  b.output(x);
}

void lower(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, vocabulary]");
  const Shape shape = b.shape(b.input());
  const std::int64_t rows = shape.elements(0, 2);
  const TensorId labels = ModelBuilder(b).labels(0);
  if (b.shape(labels).rank() != 2 || b.elements(labels) != rows)
    b.fail("expects logits of every token of the model's first input " + to_string(b.shape(labels)) + ", got " +
           to_string(shape));
  const TensorId logits = b.cast(b.input(), DType::fp32);
  TensorId padded = kNone;
  const TensorId targets = aten::view(b, shifted(b, labels, padded), {rows});
  b.output(aten::cross_entropy(b, aten::view(b, logits, {rows, shape[2]}), targets));
  b.hold({logits, padded});
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
