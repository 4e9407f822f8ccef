// CrossEntropyLoss, NLLLoss with class targets.
//
// cross_entropy is log_softmax and nll_loss (aten/src/ATen/native/LossNLL.cpp): two nodes, which save the
// log-probabilities (one storage), the target and the total weight; backward a gradient each. With four dimensions
// nll_loss is nll_loss2d, other counts above two are viewed as four. Label smoothing adds the negated sum over the
// classes, with ignored targets masked, and a number of scalars (cross_entropy_loss_label_smoothing). Under autocast
// the log-probabilities stay half, and that sum of them is fp32.

#include <string>

#include "estimator/aten/clamp.h"
#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/loss_reduction.h"
#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::cross_entropy {
namespace {

struct Arguments {
  aten::LossReduction reduction = aten::LossReduction::mean;
  double smoothing = 0;
};

Arguments arguments(const LayerBuilder& b, bool cross_entropy) {
  if (b.given("weight")) b.fail("weight", "class weights are not supported", "expected None");
  const double smoothing = cross_entropy ? b.real("label_smoothing") : 0;
  if (!(smoothing >= 0 && smoothing <= 1))
    b.fail("label_smoothing", "label_smoothing is out of range", "expected 0 to 1");
  return {aten::reduction_of(b), smoothing};
}

Shape target_shape(const LayerBuilder& b) {
  const Shape& in = b.shape(b.input());
  if (in.rank() < 2) b.fail("expects an output [N, classes, ...], got " + to_string(in));
  Shape out{in[0]};
  for (int i = 2; i < in.rank(); ++i) out.push_back(in[i]);
  return out;
}

TensorId sum_all(LayerBuilder& b, TensorId x) {
  return aten::reduce(b, x, (1U << b.shape(x).rank()) - 1, false, false);
}

// sum / number of targets that count: the mask's complement, summed as int64 through an int64 copy of it. The
// compiler evaluates the divisor first.
TensorId mean_over_counted(LayerBuilder& b, TensorId smooth, TensorId mask) {
  const Shape each = b.shape(mask);
  const DType dtype = b.dtype(smooth);
  const TensorId counted = b.emit(Operator::bitwise_not, Elementwise{each.elements()}, {mask}, each, DType::boolean);
  const Loss cast_and_sum{.elements = each.elements(), .temporaries_after = 1, .mean = false, .dtype = DType::int64};
  const TensorId count = b.emit(Operator::sum, cast_and_sum, {counted}, Shape{}, DType::int64);
  const TensorId sum = sum_all(b, smooth);
  const TensorId mean = b.emit(Operator::div, Elementwise{1}, {sum, count}, Shape{}, dtype);
  if (NodeBuilder node = b.node("DivBackward0", mean, {sum}))
    node.give(sum, node.run(Operator::div, Elementwise{1}, {node.grad(), count}, Shape{}, dtype));
  b.emit_many(Operator::locals_die, Marker{}, {sum, counted}, {});
  return mean;
}

// loss (1 - smoothing) + smooth (smoothing / classes). The function's locals live until it returns.
TensorId smoothed(LayerBuilder& b, TensorId loss, TensorId log_p, TensorId target, const Arguments& a) {
  const Shape each = b.shape(target);
  const TensorId negated = aten::unary(b, aten::reduce(b, log_p, 0b10U, false, false), aten::kNeg);
  const TensorId mask = b.emit(Operator::eq, Elementwise{each.elements()}, {target}, each, DType::boolean);
  const TensorId smooth = aten::masked_fill(b, negated, mask, 0, true);
  const TensorId term = a.reduction == aten::LossReduction::none   ? smooth
                        : a.reduction == aten::LossReduction::mean ? mean_over_counted(b, smooth, mask)
                                                                   : sum_all(b, smooth);
  const double share = a.smoothing / static_cast<double>(b.shape(log_p)[1]);
  const TensorId first = aten::binary_number(b, aten::Binary::mul, loss, 1 - a.smoothing);
  const TensorId second = aten::binary_number(b, aten::Binary::mul, term, share);
  const TensorId y = aten::binary(b, aten::Binary::add, first, second);
  b.emit_many(Operator::locals_die, Marker{}, {first, second, term, mask, smooth, loss}, {});
  return y;
}

void lower_cross_entropy(LayerBuilder& b) {
  const Arguments a = arguments(b, true);
  TensorId target = b.target(target_shape(b), DType::int64);
  if (!b.is_none("clamp")) target = aten::clamp(b, target, {0, static_cast<double>(b.integer("clamp"))});
  const TensorId log_p = aten::log_softmax(b, b.input(), 1);
  const TensorId loss = aten::nll_loss(b, log_p, target, a.reduction == aten::LossReduction::none);
  b.output(a.smoothing > 0 ? smoothed(b, loss, log_p, target, a) : loss);
}

void lower_nll(LayerBuilder& b) {
  const bool each = arguments(b, false).reduction == aten::LossReduction::none;
  b.output(aten::nll_loss(b, b.input(), b.target(target_shape(b), DType::int64), each));
}

std::vector<ParameterDef> parameters(bool cross_entropy) {
  std::vector<ParameterDef> all = {{"weight", ParameterType::real, "None", "class weights; not supported: None"},
                                   {"size_average", ParameterType::boolean, "None", "deprecated, ignored"},
                                   {"ignore_index", ParameterType::integer, "-100", "target that does not count"},
                                   {"reduce", ParameterType::boolean, "None", "deprecated, ignored"},
                                   {"reduction", ParameterType::word, "mean", "mean or sum over the targets, or none"}};
  if (!cross_entropy) return all;
  all.push_back({"label_smoothing", ParameterType::real, "0.0", "share of the target spread over all classes"});
  all.push_back({"clamp", ParameterType::integer, "None",
                 "targets are cut to 0 to this before, as transformers' heads for questions cut positions"});
  return all;
}

const LayerDef kLayers[] = {
    {.name = "CrossEntropyLoss",
     .summary = "log-softmax and negative log-likelihood of the target class",
     .math = "x [N, C, ...], target [N, ...] int64 -> the mean or sum of -log softmax(x)[target]. A second input is "
             "the target.\n"
             "Saved: the log-probabilities, the target and the total weight. Backward: two gradients of x's size.",
     .parameters = parameters(true),
     .max_inputs = 2,
     .loss = true,
     .lower = lower_cross_entropy,
     .example = {.call = "CrossEntropyLoss()",
                 .input_shapes = {{8, 10}},
                 .output_shape = {},
                 .saved_bytes = 324,
                 .derivation = "log-probabilities of 8*10*4 bytes and the total weight, 4; the target is an input"}},
    {.name = "NLLLoss",
     .summary = "negative log-likelihood of the target class",
     .math = "x [N, C, ...] log-probabilities, target [N, ...] int64 -> the mean or sum of -x[target].\n"
             "Saved: x, the target and the total weight. Backward: one gradient of x's size.",
     .parameters = parameters(false),
     .loss = true,
     .lower = lower_nll,
     .example = {.call = "NLLLoss()",
                 .input_shapes = {{8, 10}},
                 .output_shape = {},
                 .saved_bytes = 324,
                 .derivation = "x is 8*10*4 bytes, the total weight 4; the target is an input"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::cross_entropy
