// StochasticDepth (torchvision.ops.stochastic_depth): drops a residual branch for whole samples in training.
//
// noise = empty([N, 1, ...]).bernoulli_(1 - p), divided in place by 1 - p, then input * noise, which saves the noise
// (the input only if the noise wanted a gradient). Mode "batch" has one noise value. With p = 0 or in eval mode the
// input is returned.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::stochastic_depth {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const double p = aten::probability(b, "p");
  const std::string_view mode = b.word("mode");
  if (mode != "row" && mode != "batch")
    b.fail("mode", "mode is neither 'row' nor 'batch'", "expected 'row' or 'batch'");
  if (p <= 0 || !b.training()) return b.output(x);

  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  Shape each = shape;
  for (int i = 0; i < each.rank(); ++i)
    if (i > 0 || mode == "batch") each.set(i, 1);
  TensorId noise = b.emit(Operator::bernoulli_, Fill{each.elements()}, {}, each, dtype);
  b.attributes({{Attribute::p, 1 - p}});
  if (p < 1) {
    noise = b.emit_in_place(Operator::div_, Elementwise{each.elements()}, {noise});
    b.attributes({{Attribute::other, 1 - p}});
  }
  const Elementwise product{shape.elements()};
  const TensorId y = b.emit(Operator::mul, product, {x, noise}, shape, dtype);
  if (NodeBuilder node = b.node("MulBackward0", y, {x}))
    node.give(x, node.run(Operator::mul, product, {node.grad(), noise}, shape, dtype));
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "StochasticDepth",
     .summary = "drops a residual branch at random in training",
     .math = "y = x noise, noise [N, 1, ...] (row) or [1, 1, ...] (batch). Saved: the noise. p = 0: nothing.",
     .parameters = {{"p", ParameterType::real, "", "probability that a sample's branch is dropped"},
                    {"mode", ParameterType::word, "", "row: each sample by itself; batch: all or none"}},
     .lower = lower,
     .example = {.call = "StochasticDepth(0.2, \"row\")",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 16,
                 .derivation = "one fp32 number a sample is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::stochastic_depth
