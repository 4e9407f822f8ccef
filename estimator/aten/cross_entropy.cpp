#include "estimator/aten/cross_entropy.h"

#include <array>
#include <utility>

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
  return nll_loss(b, log_softmax(b, x, 1), target);
}

}  // namespace gpuplan::aten
