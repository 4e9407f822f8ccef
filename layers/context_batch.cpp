// ContextBatch: the batch of a rank of context parallelism, as a training loop has torch's context_parallel() cut it in
// place (torch/distributed/tensor/experimental/_context_parallel).
//
// Tokens [samples, those of all ranks] are copied for the step, once more as labels, the labels are shifted and
// positions counted, as transformers' Trainer gives them (_prepare_context_parallel_inputs); then each is cut to the
// rank's tokens. What is cut keeps the storage of what it was, and lives as long as what the model returns. The others
// than the tokens are LayerBuilder::context(). An inference has no labels, and leaves the context when the model
// returns.

#include <vector>

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::context_batch {
namespace {

struct Cut {
  std::int64_t samples = 1, all = 1, tokens = 1, ranks = 1;  // tokens: the rank's of all
  Shape whole() const { return {samples, all}; }
  Shape part() const { return {samples, tokens}; }
};

// _HeadTailLoadBalancer._generate_indices: two parts of the tokens for each rank, looked up and stacked.
TensorId balanced_order(LayerBuilder& b, const Cut& n) {
  const Shape parts{n.ranks, n.tokens / 2};
  const TensorId indices = aten::no_grad(b, Operator::arange, {}, {n.all}, DType::int32, {{Attribute::start, 0}});
  const TensorId head = aten::arange(b, n.ranks);
  const TensorId tail =
      aten::no_grad(b, Operator::rsub, {head}, {n.ranks}, DType::int64, {{Attribute::other, 2 * n.ranks - 1}});
  const TensorId heads = b.emit(Operator::index, Copy{parts.elements()}, {indices, head}, parts, DType::int32);
  const TensorId tails = b.emit(Operator::index, Copy{parts.elements()}, {indices, tail}, parts, DType::int32);
  const TensorId order = aten::no_grad(b, Operator::stack, {heads, tails}, {n.ranks, 2, n.tokens / 2}, DType::int32);
  b.hold({indices, head, tail});
  return order;
}

// A part of what `order` makes of it, copied by distribute_tensor().
TensorId part_of(LayerBuilder& b, TensorId whole, TensorId order, const Cut& n) {
  if (order != kNone) {
    whole = b.emit(Operator::gather, Copy{n.whole().elements()}, {whole, order}, n.whole(), DType::int64);
    b.attributes({{Attribute::dim, 1}});
  }
  return b.emit(Operator::clone, Copy{n.part().elements()}, {whole}, n.part(), DType::int64);
}

// buffer.resize_() and copy_(). Positions are those of one sample, and their storage grows where a rank's samples have
// more together.
TensorId cut_in_place(LayerBuilder& b, TensorId whole, TensorId part, const Cut& n) {
  if (n.part().elements() > b.elements(whole))
    whole = b.emit(Operator::clone, Copy{n.part().elements()}, {whole}, n.part(), DType::int64);
  else
    whole = b.alias(whole, n.part(), contiguous_strides(n.part()));
  return b.emit_in_place(Operator::copy_, Copy{n.part().elements()}, {whole, part});
}

// Tokens, labels, shifted labels and positions, in the order in which Trainer names them; of an inference the first and
// the last.
using Batch = std::vector<TensorId>;

Batch made_batch(LayerBuilder& b, TensorId tokens) {
  Batch batch{aten::clone(b, tokens)};
  TensorId padded = kNone;
  if (b.training()) {
    batch.push_back(aten::clone(b, tokens));
    batch.push_back(aten::shifted_labels(b, batch[1], padded));
  }
  batch.push_back(aten::arange(b, b.shape(tokens)[1]));
  if (padded != kNone) b.hold({padded});
  return batch;
}

// What Trainer has beside the tokens are names of its loop (trainer_tensors.h), for which the tokens stand here.
Batch loaded_batch(LayerBuilder& b, TensorId tokens) {
  ModelBuilder(b).labels(0);  // says that the loop has some
  return {tokens, tokens, tokens, tokens};
}

// What is cut before the stages of a pipeline run: estimator/distributed/stage_context.h. The first one is given
// tokens, the others positions, and the last one labels.
void lower_stage(LayerBuilder& b, const StageOfRun& stage) {
  const std::int64_t ranks = stage.first ? b.run().context_ranks : 1;
  const Shape given = b.shape(b.input());
  const Shape part{given[0], given[1] / ranks};
  const auto cut = [&](TensorId t) { return b.alias(t, part, contiguous_strides(part)); };
  const TensorId own = cut(b.input());
  ModelBuilder model(b);
  model.give_context({.shifted_labels = stage.last ? cut(model.labels(0)) : kNone, .positions = own});
  b.output(own);
}

void lower(LayerBuilder& b) {
  if (b.run().stage) return lower_stage(b, *b.run().stage);
  const TensorId tokens = b.input();
  b.expect_rank(2, "[samples, tokens]");
  Cut n{.samples = b.shape(tokens)[0], .all = b.shape(tokens)[1], .ranks = b.run().context_ranks};
  n.tokens = n.all / n.ranks;
  ModelBuilder model(b);
  const bool loaded = b.run().like == Like::trainer;
  Batch batch = loaded ? loaded_batch(b, tokens) : made_batch(b, tokens);
  const TensorId order = balances_context(n.tokens) ? balanced_order(b, n) : kNone;
  std::vector<TensorId> held;  // by the context
  for (const TensorId whole : batch) held.push_back(part_of(b, whole, order, n));
  if (order != kNone) b.hold({order});
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const TensorId part = b.emit(Operator::clone, Copy{n.part().elements()}, {held[i]}, n.part(), DType::int64);
    batch[i] = cut_in_place(b, batch[i], part, n);
    if (i + 1 == batch.size()) held.push_back(part);
    if (!loaded) model.keep_with_output(batch[i]);
  }
  for (const TensorId t : held)
    if (loaded)
      model.keep_in_backward(t);
    else if (b.training())
      model.keep_with_output(t);
    else
      model.keep_in_forward(t);
  model.give_context({.shifted_labels = b.training() ? batch[2] : kNone, .positions = batch.back()});
  b.output(batch[0]);
}

const LayerDef kLayers[] = {
    {.name = "ContextBatch",
     .summary = "what a rank of context parallelism (--cp) makes of a batch before the model's forward",
     .math =
         "Tokens [b, s] of whole samples -> those of the rank [b, s / ranks]: some from the front and some from the "
         "end.\nA plan with --cp puts it before the model. No gradient.",
     .indices = true,
     .lower = lower,
     .example = {.call = "ContextBatch()",
                 .input_shapes = {{2, 16}},
                 .input_dtype = DType::int64,
                 .derivation = "one rank has all tokens; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::context_batch
