// Linear: y = x W^T + b over the last dimension.
//
// With a bias, F.linear is addmm on the flattened input, and cuBLASLt adds the bias in its epilogue
// (aten/src/ATen/native/Linear.cpp, cuda/Blas.cpp). Without one it is mm. Per-input guard (derivatives.yaml): the
// input is saved only when the weight wants a gradient, the weight only when the input wants one. The bias
// gradient is the engine's sum_to over the rows, after both products. addmm's backward computes dX first, mm's dW.

#include <string>

#include "estimator/aten/linear.h"

namespace gpuplan::layers::linear {
namespace {

// F.linear(x, weight, bias) of weights that the model computes: they are inputs.
TensorId given(LayerBuilder& b, int i, const Shape& shape) {
  const TensorId t = b.input(i);
  if (!(b.shape(t) == shape))
    b.fail("expects " + to_string(shape) + " as its " + (i == 1 ? "weight" : "bias") + ", input " + std::to_string(i) +
           " is " + to_string(b.shape(t)));
  return t;
}

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 1) b.fail("expects an input [..., in_features]");
  const std::int64_t k = b.size("in_features", in[-1], "input features");
  const std::int64_t n = b.size("out_features");
  const bool computed = b.input_count() > 1;
  const TensorId weight = computed ? given(b, 1, {n, k}) : b.parameter("weight", {n, k});
  TensorId bias = kNone;
  if (b.input_count() > 2)
    bias = given(b, 2, {n});
  else if (!computed && b.boolean("bias"))
    bias = b.parameter("bias", {n});
  b.output(aten::linear(b, x, weight, bias));
}

const LayerDef kLinear{
    .name = "Linear",
    .summary = "y = x W^T + b over the last dimension",
    .math =
        "x [..., k], W [n, k], b [n] -> y [..., n]; m = product of the leading sizes.\n"
        "forward m n k multiply-adds; backward dX = dY W and dW = dY^T X, m n k each; db = sum of dY over rows.\n"
        "Saved: x (if W is trained), W (if x wants a gradient).",
    .parameters = {{"in_features", ParameterType::size, "", "size of the last input dimension, or _"},
                   {"out_features", ParameterType::size, "", "size of the last output dimension"},
                   {"bias", ParameterType::boolean, "True", "adds a learnable bias [out_features]"}},
    .max_inputs = 3,
    .lower = lower,
    .example = {.call = "Linear(784, 512)",
                .input_shapes = {{128, 784}},
                .output_shape = {128, 512},
                .parameters = 401'920,
                .forward_macs = 51'380'224,
                .backward_macs = 102'760'448,
                .saved_bytes = 401'408,
                .derivation = "784*512 + 512 parameters; 128*784*512 multiply-adds; x is 128*784*4 bytes"},
};

const LayerDef* const kLayers[] = {&kLinear};

}  // namespace

std::span<const LayerDef* const> layers() { return kLayers; }

}  // namespace gpuplan::layers::linear
