#include "estimator/aten/pointwise_loss.h"

namespace gpuplan::aten {
namespace {

constexpr int kNoReduction = 2;  // Attribute::reduction; 1 is the mean, 0 the sum

}  // namespace

const PointwiseLoss kMseLoss{Operator::mse_loss, "MseLossBackward0", Operator::mse_loss_backward, 0, 1, true,
                             Placing::contiguous};
const PointwiseLoss kSmoothL1Loss{
    Operator::smooth_l1_loss, "SmoothL1LossBackward0", Operator::smooth_l1_loss_backward, 0, 1, true,
    Placing::contiguous};
const PointwiseLoss kHuberLoss{Operator::huber_loss, "HuberLossBackward0", Operator::huber_loss_backward, 1, 0, false,
                               Placing::contiguous};
const PointwiseLoss kBceWithLogitsLoss{Operator::binary_cross_entropy_with_logits,
                                       "BinaryCrossEntropyWithLogitsBackward0",
                                       Operator::binary_cross_entropy_with_logits_backward,
                                       2,
                                       0,
                                       false};

TensorId pointwise_loss(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, bool mean, double bend) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Loss work{.elements = shape.elements(),
                  .flops = row_of(f.op).flops,
                  .temporaries_before = f.temporaries_before,
                  .temporaries_after = f.temporaries_after,
                  .mean = mean,
                  .dtype = dtype};
  TensorId y = b.emit(f.op, work, {x, target}, f.result_of_input_size ? shape : Shape{}, dtype);
  b.attributes({{Attribute::reduction, mean}, {Attribute::bend, bend}});
  if (f.result_of_input_size) y = b.alias(y, Shape{}, Strides{});
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    node.give(
        x, node.run(f.backward, each_of(f.op, shape), {node.grad(), x, target}, OutputSpec{shape, dtype, f.gradient}));
    node.attributes({{Attribute::reduction, mean}, {Attribute::bend, bend}});
  }
  return y;
}

TensorId pointwise_errors(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, double bend) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work = each_of(f.op, shape);
  // One of the temporaries is what is reduced otherwise; the other is log_sigmoid(x).
  const TensorId other = f.temporaries_before > 1 ? b.emit(Operator::log_sigmoid, work, {x}, shape, dtype) : kNone;
  const TensorId y = b.emit(f.op, work, {x, target}, shape, dtype);
  b.attributes({{Attribute::reduction, kNoReduction}, {Attribute::bend, bend}});
  if (other != kNone) b.hold({other});
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    node.give(x, node.run(f.backward, work, {node.grad(), x, target}, shape, dtype));
    node.attributes({{Attribute::reduction, kNoReduction}, {Attribute::bend, bend}});
  }
  return y;
}

}  // namespace gpuplan::aten
