#include "estimator/aten/cross_entropy.h"

#include <array>
#include <utility>

#include "estimator/aten/loss_parallel.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

constexpr double kIgnoredIndex = -100;  // torch's default

}  // namespace

TensorId log_softmax(LayerBuilder& b, TensorId x, int dim, std::optional<DType> to) {
  const Shape shape = b.shape(x);
  const DType dtype = to.value_or(b.dtype(x));
  if (!(b.dtype(x) == DType::fp16 && dtype == DType::fp32)) x = b.cast(x, dtype);
  Softmax work{.elements = shape.elements(), .dtype = dtype};
  const TensorId y = b.emit(Operator::_log_softmax, work, {x}, shape, dtype);
  b.attributes({{Attribute::dim, dim}});
  // After its result, the kernel makes a contiguous copy of an input that is not.
  if (!b.contiguous(x)) b.emit(Operator::contiguous, Copy{shape.elements()}, {x}, shape, b.dtype(x));
  if (NodeBuilder node = b.node("LogSoftmaxBackward0", y, {x})) {
    work.backward = true;
    node.give(x, node.run(Operator::_log_softmax_backward_data, work, {node.grad(), y}, shape, b.dtype(x)));
    node.attributes({{Attribute::dim, dim}});
  }
  return y;
}

TensorId nll_loss(LayerBuilder& b, TensorId log_p, TensorId target, bool each) {
  const Shape in = b.shape(log_p);
  const bool spatial = in.rank() > 2;
  TensorId x = log_p;
  if (spatial && in.rank() != 4) x = reshape(b, log_p, {in[0], in[1], 1, in.elements(2, in.rank())});
  x = b.autocast_fp32(x);
  const DType dtype = b.dtype(x);
  const Shape shape = b.shape(x);
  NllLoss work{.elements = b.elements(target)};
  const Shape targets = spatial ? Shape{shape[0], shape[2], shape[3]} : Shape{shape[0]};
  std::array<OutputSpec, 2> results{{{each ? targets : Shape{}, dtype}, {Shape{}, dtype}}};
  const bool weight_first = each && spatial;
  if (weight_first) std::swap(results[0], results[1]);
  std::vector<TensorId> loss_and_weight =
      b.emit_many(spatial ? Operator::nll_loss2d_forward : Operator::nll_loss_forward, work, {x, target}, results);
  if (weight_first) std::swap(loss_and_weight[0], loss_and_weight[1]);
  b.attributes({{Attribute::ignore_index, kIgnoredIndex}});
  if (NodeBuilder node = b.node(spatial ? "NllLoss2DBackward0" : "NllLossBackward0", loss_and_weight[0], {x})) {
    work.backward = true;
    node.give(x, node.run(spatial ? Operator::nll_loss2d_backward : Operator::nll_loss_backward, work,
                          {node.grad(), x, target, loss_and_weight[1]}, shape, dtype));
    node.attributes({{Attribute::ignore_index, kIgnoredIndex}});
  }
  if (x != log_p) b.hold({log_p});  // an argument, of which autocast made a copy
  return each ? reshape(b, loss_and_weight[0], b.shape(target)) : loss_and_weight[0];
}

TensorId cross_entropy(LayerBuilder& b, TensorId x, TensorId target) {
  if (b.run().tensor_plan.loss && b.run().tensor_ranks > 1) return cross_entropy_of_ranks(b, x, target);
  return nll_loss(b, log_softmax(b, x, 1), target);
}

TensorId shifted_labels(LayerBuilder& b, TensorId labels, TensorId& padded) {
  const std::int64_t samples = b.shape(labels)[0], tokens = b.shape(labels)[1];
  padded = b.emit(Operator::constant_pad_nd, Copy{b.elements(labels)}, {labels}, {samples, tokens + 1}, DType::int64);
  b.attributes({{Attribute::before, 0},
                {Attribute::after, 0},
                {Attribute::before, 0},
                {Attribute::after, 1},
                {Attribute::value, kIgnoredIndex}});
  return contiguous(b, slice(b, padded, 1, 1, tokens));
}

namespace {

std::int64_t rows_of(const LayerBuilder& b, TensorId logits, TensorId labels) {
  b.expect_rank(3, "[batch, tokens, vocabulary]");
  const std::int64_t rows = b.shape(logits).elements(0, 2);
  if (b.shape(labels).rank() != 2 || b.elements(labels) != rows)
    b.fail("expects logits of every token of the model's first input " + to_string(b.shape(labels)) + ", got " +
           to_string(b.shape(logits)));
  return rows;
}

}  // namespace

TensorId causal_lm_loss(LayerBuilder& b, TensorId logits, TensorId labels) {
  const std::int64_t rows = rows_of(b, logits, labels);
  const TensorId wide = b.cast(logits, DType::fp32);
  TensorId padded = kNone;
  const TensorId targets = view(b, shifted_labels(b, labels, padded), {rows});
  const TensorId loss = cross_entropy(b, view(b, wide, {rows, b.shape(logits)[2]}), targets);
  b.hold({wide, padded});
  return loss;
}

TensorId shifted_causal_lm_loss(LayerBuilder& b, TensorId logits, TensorId shifted) {
  const std::int64_t rows = rows_of(b, logits, shifted);
  const TensorId wide = b.cast(logits, DType::fp32);
  const TensorId loss = cross_entropy(b, view(b, wide, {rows, b.shape(logits)[2]}), view(b, shifted, {rows}));
  b.hold({wide});
  return loss;
}

}  // namespace gpuplan::aten
