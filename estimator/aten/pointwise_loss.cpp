#include "estimator/aten/pointwise_loss.h"

namespace gpuplan::aten {
namespace {

constexpr double kNoReduction = 2;  // among an operator's numbers; 1 is the mean, 0 the sum

}  // namespace

const PointwiseLoss kMseLoss{"aten::mse_loss",   "MseLossBackward0", "aten::mse_loss_backward", 3, 0, 1, true,
                             Placing::contiguous};
const PointwiseLoss kSmoothL1Loss{
    "aten::smooth_l1_loss", "SmoothL1LossBackward0", "aten::smooth_l1_loss_backward", 5, 0, 1, true,
    Placing::contiguous};
const PointwiseLoss kHuberLoss{"aten::huber_loss", "HuberLossBackward0", "aten::huber_loss_backward", 5, 1, 0, false,
                               Placing::contiguous};
const PointwiseLoss kBceWithLogitsLoss{"aten::binary_cross_entropy_with_logits",
                                       "BinaryCrossEntropyWithLogitsBackward0",
                                       "aten::binary_cross_entropy_with_logits_backward",
                                       8,
                                       2,
                                       0,
                                       false};

TensorId pointwise_loss(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, bool mean, double bend) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Loss work{.elements = shape.elements(),
                  .flops = f.flops,
                  .temporaries_before = f.temporaries_before,
                  .temporaries_after = f.temporaries_after,
                  .mean = mean,
                  .dtype = dtype};
  TensorId y = b.emit(f.op, work, {x, target}, f.result_of_input_size ? shape : Shape{}, dtype);
  b.numbers({mean ? 1.0 : 0.0, bend});
  if (f.result_of_input_size) y = b.alias(y, Shape{}, Strides{});
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    node.give(x, node.run(f.backward, Elementwise{shape.elements(), f.flops}, {node.grad(), x, target},
                          OutputSpec{shape, dtype, f.gradient}));
    node.numbers({mean ? 1.0 : 0.0, bend});
  }
  return y;
}

TensorId pointwise_errors(LayerBuilder& b, const PointwiseLoss& f, TensorId x, TensorId target, double bend) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements(), f.flops};
  // One of the temporaries is what is reduced otherwise; the other is log_sigmoid(x).
  const TensorId other = f.temporaries_before > 1 ? b.emit("aten::log_sigmoid", work, {x}, shape, dtype) : kNone;
  const TensorId y = b.emit(f.op, work, {x, target}, shape, dtype);
  b.numbers({kNoReduction, bend});
  if (other != kNone) b.hold({other});
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    node.give(x, node.run(f.backward, work, {node.grad(), x, target}, shape, dtype));
    node.numbers({kNoReduction, bend});
  }
  return y;
}

}  // namespace gpuplan::aten
