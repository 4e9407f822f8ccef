// Dropout and Dropout2d: y = x * mask / (1 - p) in training, x itself otherwise.
//
// Out of place with 0 < p < 1 it is native_dropout, which allocates a bool mask and then its result and saves the mask
// (aten/src/ATen/native/cuda/Dropout.cu). In place, and for whole channels, it multiplies by a noise tensor of the
// input's type, which is saved (aten/src/ATen/native/Dropout.cpp, _dropout_impl). p = 1 multiplies by a scalar zero.
// With p = 0 or in eval mode the input is returned.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::dropout {
namespace {

// x * noise, in place or not; the noise is what is saved.
void multiply(LayerBuilder& b, TensorId x, TensorId noise, bool in_place) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise product{shape.elements()};
  const TensorId y = in_place ? b.emit_in_place(Operator::mul_, product, {x, noise})
                              : b.emit(Operator::mul, product, {x, noise}, shape, dtype);
  if (NodeBuilder node = b.node("MulBackward0", y, {x}))
    node.give(x, node.run(Operator::mul, product, {node.grad(), noise}, shape, dtype));
  b.output(y);
}

// empty, bernoulli_, div_: a tensor that is filled in place.
TensorId noise_tensor(LayerBuilder& b, const Shape& shape, double p) {
  const DType dtype = b.dtype(b.input());
  if (p >= 1) return b.emit(Operator::zeros, Fill{1}, {}, Shape{}, dtype);
  const Strides strides = b.strides(b.input());  // of whole channels it has the default layout
  const bool whole = shape == b.shape(b.input());
  const TensorId noise =
      b.emit(Operator::bernoulli_, Fill{shape.elements()}, {},
             {shape, dtype, Placing::given, whole ? strides_like(shape, strides) : contiguous_strides(shape)});
  b.attributes({{Attribute::p, 1 - p}});
  const TensorId scaled = b.emit_in_place(Operator::div_, Elementwise{shape.elements()}, {noise});
  b.attributes({{Attribute::other, 1 - p}});
  return scaled;
}

void lower_dropout(LayerBuilder& b) {
  const TensorId x = b.input();
  const double p = aten::probability(b, "p");
  const bool in_place = b.boolean("inplace");
  if (p <= 0 || !b.training()) return b.output(x);
  if (in_place || p >= 1) return multiply(b, x, noise_tensor(b, b.shape(x), p), in_place);
  b.output(aten::dropout(b, x, p, true));
}

void lower_dropout_2d(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const TensorId x = b.input();
  const double p = aten::probability(b, "p");
  const bool in_place = b.boolean("inplace");
  if (p <= 0 || !b.training()) return b.output(x);
  multiply(b, x, noise_tensor(b, {b.shape(x)[0], b.shape(x)[1], 1, 1}, p), in_place);
}

const std::vector<ParameterDef> kParameters = {
    {"p", ParameterType::real, "0.5", "probability that an element becomes 0"},
    {"inplace", ParameterType::boolean, "False", "writes into its input"}};

const LayerDef kLayers[] = {
    {.name = "Dropout",
     .summary = "zeroes elements at random in training",
     .math = "y = x mask / (1 - p). Saved: the mask, 1 byte an element; in place noise of the input's type. p = 0: "
             "nothing.",
     .parameters = kParameters,
     .lower = lower_dropout,
     .example = {.call = "Dropout(0.2)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 6'272,
                 .derivation = "a bool mask of 4*8*14*14 bytes is saved"}},
    {.name = "Dropout2d",
     .summary = "zeroes whole channels at random in training",
     .math = "y = x noise, noise [N, C, 1, 1]. Saved: the noise.",
     .parameters = kParameters,
     .lower = lower_dropout_2d,
     .example = {.call = "Dropout2d(0.2)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 128,
                 .derivation = "noise of 4*8*4 bytes is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::dropout
