// MegatronCrossEntropy, MegatronLoss: Megatron-core's loss of each token (megatron/core 0.16,
// tensor_parallel/cross_entropy.py, unfused), and what pretrain_gpt.py and schedules.py make of them.

#include <array>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::megatron_loss {
namespace {

struct OwnTargets {
  TensorId mask = kNone, targets = kNone;
};

// What is of another rank's vocabulary is masked, with one rank too.
OwnTargets own_targets(LayerBuilder& b, TensorId labels, const Shape& each) {
  const TensorId below = aten::no_grad(b, Operator::lt, {labels}, each, DType::boolean);
  const TensorId above = aten::no_grad(b, Operator::ge, {labels}, each, DType::boolean);
  const TensorId mask = aten::no_grad(b, Operator::logical_or, {below, above}, each, DType::boolean);
  b.hold({below, above});
  const TensorId copy = b.emit(Operator::clone, Copy{each.elements()}, {labels}, each, DType::int64);
  const TensorId targets = aten::no_grad(b, Operator::sub, {copy}, each, DType::int64);
  b.emit_in_place(Operator::masked_fill_, Elementwise{each.elements()}, {targets, mask});
  return {mask, targets};
}

// _VocabParallelCrossEntropy.backward: over the probabilities. The engine then converts them, when the function written
// in Python has let go of the gradient that it was given (csrc/autograd/python_function.cpp), and what it saved is
// there: a node of its own here.
void backward(LayerBuilder& b, TensorId losses, TensorId logits, TensorId probabilities, const OwnTargets& own) {
  if (logits != probabilities) {
    if (NodeBuilder conversion = b.node("_VocabParallelCrossEntropyBackward", probabilities, {logits})) {
      conversion.save(own.mask);
      conversion.save(own.targets);
      conversion.give(logits, conversion.grad());
    }
  }
  NodeBuilder node = b.node("_VocabParallelCrossEntropyBackward", losses, {probabilities});
  if (!node) return;
  const Shape rows{b.elements(own.targets)};
  const Elementwise each{rows.elements()}, all{b.elements(probabilities)};
  const Operand numbers = node.run(Operator::arange, Fill{rows.elements()}, {}, rows, DType::int64);
  const Operand masked = node.run(Operator::_to_copy, each, {own.mask}, rows, DType::fp32);
  const Operand update = node.run(Operator::rsub, each, {masked}, rows, DType::fp32);
  const Operand own_values =
      node.run(Operator::index, Copy{rows.elements()}, {probabilities, numbers, own.targets}, rows, DType::fp32);
  node.run_in_place(Operator::sub_, each, {own_values, update});
  node.run_in_place(Operator::index_put_, Copy{rows.elements()}, {own_values, numbers, own.targets});
  node.run_in_place(Operator::mul_, all, {node.in_saved(probabilities, probabilities), node.grad()});
  node.hold({numbers, update});
  node.give(probabilities, node.in_saved(probabilities, probabilities));
}

void lower_cross_entropy(LayerBuilder& b) {
  const TensorId logits = b.input(0);
  const Shape all = b.shape(logits);
  const Shape each{all[0], all[1]}, rows{each.elements()};
  if (b.shape(b.input(1)) != Shape{all[1], all[0]})
    b.fail("expects logits [tokens, batch, vocabulary] and labels [batch, tokens]");
  const TensorId labels = aten::contiguous(b, aten::transpose(b, b.input(1), 0, 1));
  const bool before = b.leave_grad(true);
  const bool sums = b.run().tensor_ranks > 1;
  const auto reduce = [&](TensorId t) {
    if (sums) b.emit_in_place(Operator::all_reduce, Copy{b.elements(t)}, {t});
  };
  const TensorId wide = b.cast(logits, DType::fp32);
  const std::array<OutputSpec, 2> extremes{OutputSpec{each, DType::fp32}, OutputSpec{each, DType::int64}};
  const TensorId most = b.emit_many(Operator::max, Elementwise{all.elements()}, {wide}, extremes)[0];
  reduce(most);
  b.emit_in_place(Operator::sub_, Elementwise{all.elements()}, {wide, most});
  const OwnTargets own = own_targets(b, labels, each);
  const TensorId numbers = b.emit(Operator::arange, Fill{rows.elements()}, {}, rows, DType::int64);
  const TensorId found =
      b.emit(Operator::index, Copy{rows.elements()}, {wide, numbers, own.targets}, rows, DType::fp32);
  const TensorId predicted = b.emit(Operator::clone, Copy{rows.elements()}, {found}, each, DType::fp32);
  b.emit_in_place(Operator::masked_fill_, Elementwise{rows.elements()}, {predicted, own.mask});
  b.emit_in_place(Operator::exp_, Elementwise{all.elements()}, {wide});
  const TensorId sum = aten::reduce(b, wide, 0b100U, false, false);
  b.hold({numbers});
  reduce(predicted);
  reduce(sum);
  const TensorId logarithm = aten::no_grad(b, Operator::log, {sum}, each, DType::fp32);
  b.leave_grad(before);
  const TensorId losses =
      b.emit(Operator::sub, Elementwise{rows.elements()}, {logarithm, predicted}, each, DType::fp32);
  b.emit_in_place(Operator::div_, Elementwise{all.elements()}, {wide, sum});
  b.hold({most, predicted, sum});
  backward(b, losses, logits, wide, own);
  b.output(aten::contiguous(b, aten::transpose(b, losses, 0, 1)));
  b.hold({losses, labels, logits});
}

// loss_func of pretrain_gpt.py, forward_step_calc_loss, and the optimizer's scale of 1, a tensor: the sum of the losses
// that count, over how many there are. The loop holds it, the count, and the report of both until the step is through.
void lower_loss(LayerBuilder& b) {
  const Shape each = b.shape(b.input());
  const Shape row{each.elements()};
  const TensorId mask = aten::view(b, b.target(each, DType::fp32), row);
  TensorId loss = aten::reduce(b, aten::mul(b, aten::view(b, b.input(), row), mask), 1U, false, false);
  const TensorId counted = aten::reduce(b, mask, 1U, false, false);
  const TensorId copy = b.emit(Operator::clone, Copy{1}, {counted}, Shape{}, DType::fp32);
  b.hold({counted});
  const TensorId count = b.emit(Operator::_to_copy, Elementwise{1, 0}, {copy}, Shape{}, DType::int32);
  const TensorId told = b.emit(Operator::clone, Copy{1}, {loss}, Shape{}, DType::fp32);
  const TensorId report = b.emit(Operator::cat, Copy{2}, {told, count}, Shape{2}, DType::fp32);
  b.hold({told});
  const TensorId least = b.emit(Operator::clamp_min, Elementwise{1}, {count}, Shape{}, DType::int32);
  loss = aten::binary(b, aten::Binary::div, loss, least, true);
  loss = aten::binary_number(b, aten::Binary::div, loss, static_cast<double>(b.run().micro_batches), true, true);
  const TensorId scaled = b.emit(Operator::mul, Elementwise{1}, {loss}, Shape{}, DType::fp32);
  if (NodeBuilder node = b.node("MulBackward0", scaled, {loss})) {  // the scale has one dimension, which is summed
    const Operand of_scale = node.run(Operator::mul, Elementwise{1}, {node.grad()}, Shape{1}, DType::fp32);
    const Reduction sum{.shape = {1}, .reduced = 1, .input = DType::fp32, .output = DType::fp32};
    node.give(loss, node.run(Operator::sum, sum, {of_scale}, Shape{}, DType::fp32));
  }
  for (const TensorId held : {loss, count, report}) ModelBuilder(b).keep_with_output(held);
  ModelBuilder(b).returns_loss_alone(scaled);
  b.output(scaled);
}

const LayerDef kLayers[] = {
    {.name = "MegatronCrossEntropy",
     .summary = "Megatron-core's vocab-parallel cross entropy of each token, of one rank's vocabulary",
     .math = "logits [s, b, v], labels [b, s] -> losses [b, s] in fp32. Saved: probabilities in fp32, over which the\n"
             "gradient is written, the own targets and the mask of others.",
     .min_inputs = 2,
     .indices = true,
     .lower = lower_cross_entropy,
     .example = {.call = "MegatronCrossEntropy()",
                 .input_shapes = {{10, 2, 64}, {2, 10}},
                 .output_shape = {2, 10},
                 .saved_bytes = 5'300,
                 .derivation = "probabilities of 10*2*64*4 bytes, targets 10*2*8, mask 10*2"}},
    {.name = "MegatronLoss",
     .summary = "the sum of losses over the number of tokens that count, as Megatron-LM's loop has it",
     .math = "losses [b, s], mask [b, s] in fp32, an input of the step -> their product's sum, divided by the mask's.\n"
             "Saved: the mask and the count.",
     .loss = true,
     .in_model = true,
     .lower = lower_loss,
     .example = {.call = "MegatronLoss()",
                 .input_shapes = {{2, 10}},
                 .output_shape = {},
                 .saved_bytes = 4,
                 .derivation = "the count; the mask is an input"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::megatron_loss
