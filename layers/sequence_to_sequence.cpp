// SharedEmbedding, ShiftRight, ReturnedState, ToParameterType, ClampOverflow, SequenceToSequenceLoss: what Hugging
// Face's T5 does around its stacks.
//
// transformers/models/t5/modeling_t5.py: T5PreTrainedModel._shift_right makes the decoder's tokens of the labels;
// T5DenseActDense converts its activations to the type of the second weight (for stores in int8), which under autocast
// is a copy to fp32; Seq2SeqLMOutput names the encoder's result; the loss is the cross entropy of the logits as they
// are and the labels. T5Block.forward clamps its states where they are of fp16, to a limit that infinities decide;
// WhisperEncoderLayer.forward to 64504 (models/whisper/modeling_whisper.py).

#include <limits>

#include "estimator/aten/clamp.h"
#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::sequence_to_sequence {
namespace {

constexpr double kLargestHalf = 65504, kInfinity = std::numeric_limits<double>::infinity();

void lower_shared(LayerBuilder& b) {
  b.output(b.parameter("weight", {b.size("num_embeddings"), b.size("embedding_dim")}));
}

// shifted = new_zeros; shifted[:, 1:] = labels[:, :-1].clone(); shifted[:, 0] = start; -100 becomes padding. T5 starts
// with its padding, 0.
void lower_shift(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  const TensorId labels = b.input();
  if (!b.run().in_training() && !b.run().labels) return b.output(labels);
  const Shape shape = b.shape(labels);
  const DType dtype = b.dtype(labels);
  TensorId shifted = b.emit(Operator::new_zeros, Fill{shape.elements()}, {}, shape, dtype);
  if (shape[1] > 1) {
    const Shape part{shape[0], shape[1] - 1};
    const TensorId moved =
        b.emit(Operator::clone, Copy{part.elements()}, {b.alias(labels, part, b.strides(labels))}, part, dtype);
    shifted = b.emit_in_place(Operator::copy_, Copy{part.elements()}, {shifted, moved});
    b.attributes({{Attribute::dim, 1}, {Attribute::start, 1}, {Attribute::step, 1}});
  }
  shifted = b.emit_in_place(Operator::fill_, Fill{shape[0]}, {shifted});
  b.attributes({{Attribute::value, 0}, {Attribute::dim, 1}, {Attribute::start, 0}, {Attribute::size, 1}});
  const TensorId ignored = b.emit(Operator::eq, Elementwise{shape.elements()}, {shifted}, shape, DType::boolean);
  b.attributes({{Attribute::other, -100}});
  const TensorId filled = b.emit_in_place(Operator::masked_fill_, Elementwise{shape.elements()}, {shifted, ignored});
  b.attributes({{Attribute::value, 0}});
  b.output(filled);
}

void lower_returned(LayerBuilder& b) {
  ModelBuilder(b).keep_with_output(b.input());
  b.output(b.input());
}

void lower_to(LayerBuilder& b) { b.output(b.cast(b.input(), b.run().precision)); }

// torch.isinf is x.abs() == inf; the scalars that torch.where takes become tensors of fp32.
TensorId clamp_to_found(LayerBuilder& b, TensorId x) {
  const Shape shape = b.shape(x);
  const Elementwise one{1};
  const auto number = [&](double value) {
    const TensorId made = b.emit(Operator::scalar_tensor, Fill{1}, {}, Shape{}, DType::fp32);
    b.attributes({{Attribute::value, value}});
    return made;
  };
  const TensorId size = aten::no_grad(b, Operator::abs, {x}, shape, DType::fp16);
  const TensorId infinite =
      aten::no_grad(b, Operator::eq, {size}, shape, DType::boolean, {{Attribute::other, kInfinity}});
  const unsigned all = (1U << shape.rank()) - 1;
  const Reduction work{.shape = shape,
                       .reduced = all,
                       .input = DType::boolean,
                       .output = DType::boolean,
                       .mean = true};  // any is reduced in one pass, as a mean is
  const TensorId any = b.emit(Operator::any, work, {infinite}, Shape{}, DType::boolean);
  b.attributes({{Attribute::dims, all}});
  const TensorId lower = number(kLargestHalf - 1000), largest = number(kLargestHalf);
  const TensorId limit = b.emit(Operator::where, one, {any, lower, largest}, Shape{}, DType::fp32);
  const TensorId least = aten::no_grad(b, Operator::neg, {limit}, Shape{}, DType::fp32);
  const TensorId y = aten::clamp(b, x, least, limit);
  b.hold({x, limit});
  return y;
}

void lower_overflow(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(x) != DType::fp16) return b.output(x);
  if (b.is_none("limit")) return b.output(clamp_to_found(b, x));
  if (!(b.real("limit") > 0)) b.fail("limit", "a limit is above 0", "64504 in Whisper");
  b.output(aten::clamp(b, x, aten::Bounds{-b.real("limit"), b.real("limit")}));
}

void lower_loss(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, vocabulary]");
  const Shape shape = b.shape(b.input());
  const std::int64_t rows = shape.elements(0, 2);
  const TensorId labels = ModelBuilder(b).input(0);
  if (b.elements(labels) != rows)
    b.fail("expects logits of every token of the model's first input " + to_string(b.shape(labels)) + ", got " +
           to_string(shape));
  const TensorId logits = aten::view(b, b.input(), {rows, shape[2]});
  b.output(aten::cross_entropy(b, logits, aten::view(b, labels, {rows})));
}

const LayerDef kLayers[] = {
    {.name = "SharedEmbedding",
     .summary = "an embedding table that several layers share and none owns (tie: its name)",
     .math = "W [V, D]. No kernel. Each layer tied to it was built with a table of its own, which is let go.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                    {"embedding_dim", ParameterType::size, "", "size of a row"}},
     .min_inputs = 0,
     .lower = lower_shared,
     .example = {.call = "SharedEmbedding(1000, 32)",
                 .input_shapes = {},
                 .output_shape = {1000, 32},
                 .parameters = 32'000,
                 .derivation = "1000*32 parameters"}},
    {.name = "ShiftRight",
     .summary = "the decoder's input tokens: the labels shifted right",
     .math =
         "labels [b, s] -> [b, s] int64: a start token, then all labels but the last. In inference the input is what\n"
         "the decoder is given.",
     .indices = true,
     .lower = lower_shift,
     .example = {.call = "ShiftRight()",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "ReturnedState",
     .summary = "a tensor that the model's output object also holds, besides the result",
     .math = "y = x: the same tensor, which lives as long as the output does. No kernel.",
     .lower = lower_returned,
     .example = {.call = "ReturnedState()", .input_shapes = {{2, 10, 64}}, .derivation = "nothing is computed"}},
    {.name = "ToParameterType",
     .summary = "x.to(weight.dtype)",
     .math = "y = x in the type of the model's weights: x itself, or a copy (under autocast). Saved: nothing.",
     .lower = lower_to,
     .example = {.call = "ToParameterType()", .input_shapes = {{2, 10, 64}}, .derivation = "the same tensor in fp32"}},
    {.name = "ClampOverflow",
     .summary = "keeps fp16 states below their largest number, as the blocks of T5 and Whisper do",
     .math = "y = clamp(x, -limit, limit) in fp16; else y = x. Without a limit it is a tensor: 64504 where x has an "
             "infinity,\nelse 65504. Saved: x, and the limits that are tensors.",
     .parameters = {{"limit", ParameterType::real, "None", "largest value; None: as infinities in x decide"}},
     .lower = lower_overflow,
     .example = {.call = "ClampOverflow()",
                 .input_shapes = {{2, 10, 64}},
                 .derivation = "the example is in fp32, and nothing happens"}},
    {.name = "SequenceToSequenceLoss",
     .summary = "cross entropy of the model's first input, within the model's forward",
     .math = "x [b, s, V], labels: the model's first input [b, s] -> the mean of -log softmax(x)[label].\n"
             "Saved: the log-probabilities, the labels and the total weight.",
     .loss = true,
     .in_model = true,
     .lower = lower_loss,
     .example = {.call = "SequenceToSequenceLoss()",
                 .input_shapes = {{2, 10, 16}},
                 .output_shape = {},
                 .saved_bytes = 1'284,
                 .derivation =
                     "2*10 rows of log-probabilities, 16*4 bytes each, and the total weight, 4; labels are an "
                     "input"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::sequence_to_sequence
