// MSELoss, SmoothL1Loss, HuberLoss, BCEWithLogitsLoss, L1Loss: a pointwise error, then its mean or sum.
//
// All but l1_loss are one operator that saves input and target and whose backward allocates one gradient
// (aten/src/ATen/native/Loss.cpp). mse_loss and smooth_l1_loss allocate their result at the input's size before
// they reduce into it, so the scalar that they return holds a storage of that size. l1_loss is (x - target).abs()
// reduced: three nodes, of which abs saves the difference. Under autocast all compute in fp32, of a cast input.

#include <string>

#include "estimator/aten/loss_reduction.h"
#include "estimator/aten/pointwise_loss.h"

namespace gpuplan::layers::pointwise_losses {
namespace {

using aten::PointwiseLoss;

// `bend`: where smooth_l1_loss and huber_loss turn from squares to straight lines.
void lower(LayerBuilder& b, const PointwiseLoss& f, double bend) {
  const aten::LossReduction reduction = aten::reduction_of(b);
  const TensorId x = b.autocast_fp32(b.input());
  const TensorId target = b.target(b.shape(x), b.dtype(x));
  b.output(reduction == aten::LossReduction::none
               ? aten::pointwise_errors(b, f, x, target, bend)
               : aten::pointwise_loss(b, f, x, target, reduction == aten::LossReduction::mean, bend));
}

template <const PointwiseLoss& F>
void lower_fused(LayerBuilder& b) {
  for (const std::string_view weights : {"weight", "pos_weight"})
    if (&F == &aten::kBceWithLogitsLoss && b.given(weights))
      b.fail(weights, "weights are not supported", "expected None");
  lower(b, F, &F == &aten::kSmoothL1Loss ? b.real("beta") : &F == &aten::kHuberLoss ? b.real("delta") : 0);
}

void lower_l1(LayerBuilder& b) {
  const aten::LossReduction reduction = aten::reduction_of(b);
  const bool mean = reduction == aten::LossReduction::mean;
  const TensorId x = b.autocast_fp32(b.input());
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId target = b.target(shape, dtype);
  const TensorId difference = b.emit(Operator::sub, each, {x, target}, shape, dtype);
  if (NodeBuilder node = b.node("SubBackward0", difference, {x})) node.give(x, node.grad());
  const TensorId error = b.emit(Operator::abs, each, {difference}, shape, dtype);
  if (NodeBuilder node = b.node("AbsBackward0", error, {difference})) {
    const Operand sign = node.run(Operator::sgn, each, {difference}, shape, dtype);
    node.give(difference, node.run(Operator::mul, each, {node.grad(), sign}, shape, dtype));
  }
  if (reduction == aten::LossReduction::none) return b.output(error);
  const Reduction all{
      .shape = shape, .reduced = (1U << shape.rank()) - 1, .input = dtype, .output = dtype, .mean = mean};
  const TensorId y = b.emit(mean ? Operator::mean : Operator::sum, all, {error}, Shape{}, dtype);
  b.attributes({{Attribute::dims, all.reduced}});
  if (NodeBuilder node = b.node(mean ? "MeanBackward0" : "SumBackward0", y, {error})) {
    node.give(error,
              mean ? node.run(Operator::div, each, {node.grad()}, shape, dtype) : node.expand(node.grad(), shape));
    if (mean) node.attributes({{Attribute::other, shape.elements()}});
  }
  b.output(y);
}

const ParameterDef kSizeAverage{"size_average", ParameterType::boolean, "None", "deprecated, ignored"};
const ParameterDef kReduce{"reduce", ParameterType::boolean, "None", "deprecated, ignored"};
const ParameterDef kReduction{"reduction", ParameterType::word, "mean", "mean or sum over all elements, or none"};

LayerDef loss(std::string_view name, std::string_view summary, std::string_view math,
              std::vector<ParameterDef> parameters, void (*lowering)(LayerBuilder&), std::string_view call,
              std::string_view derivation) {
  return {.name = name,
          .summary = summary,
          .math = math,
          .parameters = std::move(parameters),
          .loss = true,
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .output_shape = {},
                      .saved_bytes = 25'088,
                      .derivation = derivation}};
}

constexpr std::string_view kInputSaved = "x is 4*8*14*14*4 bytes; the target is an input";

const LayerDef kLayers[] = {
    loss("MSELoss", "mean squared error",
         "(x - t)^2, then mean or sum; the target has x's shape and type. Saved: x and the target.",
         {kSizeAverage, kReduce, kReduction}, lower_fused<aten::kMseLoss>, "MSELoss()", kInputSaved),
    loss("SmoothL1Loss", "squared error near 0, absolute error elsewhere", "Saved: x and the target.",
         {kSizeAverage, kReduce, kReduction, {"beta", ParameterType::real, "1.0", "where the one becomes the other"}},
         lower_fused<aten::kSmoothL1Loss>, "SmoothL1Loss()", kInputSaved),
    loss("HuberLoss", "squared error near 0, absolute error elsewhere", "Saved: x and the target.",
         {kReduction, {"delta", ParameterType::real, "1.0", "where the one becomes the other"}},
         lower_fused<aten::kHuberLoss>, "HuberLoss()", kInputSaved),
    loss("BCEWithLogitsLoss", "binary cross-entropy of sigmoid(x)",
         "(1 - t) x - log sigmoid(x), then mean or sum; the target has x's shape and type. Saved: x and the target.",
         {{"weight", ParameterType::real, "None", "weight of each element; not supported: None"},
          kSizeAverage,
          kReduce,
          kReduction,
          {"pos_weight", ParameterType::real, "None", "weight of positive targets; not supported: None"}},
         lower_fused<aten::kBceWithLogitsLoss>, "BCEWithLogitsLoss()", kInputSaved),
    loss("L1Loss", "mean absolute error", "|x - t|, then mean or sum; the target has x's shape and type. Saved: x - t.",
         {kSizeAverage, kReduce, kReduction}, lower_l1, "L1Loss()", "the difference, 4*8*14*14*4 bytes, is saved"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::pointwise_losses
