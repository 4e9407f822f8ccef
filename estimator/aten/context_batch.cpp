#include "estimator/aten/context_batch.h"

#include <array>
#include <vector>

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/mask_conditions.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::aten {
namespace {

struct Cut {
  std::int64_t samples = 1, all = 1, tokens = 1, ranks = 1;  // tokens: the rank's of all
  Shape whole() const { return {samples, all}; }
  Shape part() const { return {samples, tokens}; }
};

// _HeadTailLoadBalancer._generate_indices: two parts of the tokens for each rank, looked up and stacked.
TensorId balanced_order(LayerBuilder& b, const Cut& n) {
  const Shape parts{n.ranks, n.tokens / 2};
  const TensorId indices = no_grad(b, Operator::arange, {}, {n.all}, DType::int32, {{Attribute::start, 0}});
  const TensorId head = arange(b, n.ranks);
  const TensorId tail =
      no_grad(b, Operator::rsub, {head}, {n.ranks}, DType::int64, {{Attribute::other, 2 * n.ranks - 1}});
  const TensorId heads = b.emit(Operator::index, Copy{parts.elements()}, {indices, head}, parts, DType::int32);
  const TensorId tails = b.emit(Operator::index, Copy{parts.elements()}, {indices, tail}, parts, DType::int32);
  const TensorId order = no_grad(b, Operator::stack, {heads, tails}, {n.ranks, 2, n.tokens / 2}, DType::int32);
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

}  // namespace

namespace {

// Tokens, labels, shifted labels and positions, in the order in which Trainer names them.
using Batch = std::array<TensorId, 4>;

Batch made_batch(LayerBuilder& b, TensorId tokens) {
  Batch batch{clone(b, tokens), clone(b, tokens)};
  TensorId padded = kNone;
  batch[2] = shifted_labels(b, batch[1], padded);
  batch[3] = arange(b, b.shape(tokens)[1]);
  b.hold({padded});
  return batch;
}

// What Trainer has beside the tokens are names of its loop (trainer_tensors.h), for which the tokens stand here.
Batch loaded_batch(LayerBuilder& b, TensorId tokens) {
  ModelBuilder(b).labels(0);
  return {tokens, tokens, tokens, tokens};
}

}  // namespace

TensorId cut_batch(LayerBuilder& b, TensorId tokens) {
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
  for (const TensorId t : held) loaded ? model.keep_in_backward(t) : model.keep_with_output(t);
  model.give_context({.shifted_labels = batch[2], .positions = batch[3]});
  return batch[0];
}

}  // namespace gpuplan::aten
