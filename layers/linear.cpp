// Linear: y = x W^T + b over the last dimension.
//
// With a bias, F.linear is addmm on the flattened input, and cuBLASLt adds the bias in its epilogue
// (aten/src/ATen/native/Linear.cpp, cuda/Blas.cpp). Without one it is mm. Per-input guard (derivatives.yaml): the
// input is saved only when the weight wants a gradient, the weight only when the input wants one. The bias
// gradient is the engine's sum_to over the rows, after both products. addmm's backward computes dX first, mm's dW.

#include "estimator/aten/linear.h"
#include "estimator/aten/stored_linear.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/weight.h"

namespace gpuplan::layers::linear {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = aten::shared_input(b, b.input());
  const Shape in = b.shape(x);
  if (in.rank() < 1) b.fail("expects an input [..., in_features]");
  const std::int64_t k = b.size("in_features", in[-1], "input features");
  std::int64_t n = b.size("out_features");
  if (b.tensor_style() == TensorStyle::head) n /= b.run().tensor_ranks;
  if (b.tensor_style() == TensorStyle::rowwise && b.boolean("bias"))
    b.fail("a bias of a layer that ranks share by its input features is not planned with --tp");
  const bool own = b.input_count() == 1;
  const TensorId weight = aten::weight(b, own, "weight", 1, {n, k});
  const TensorId bias = aten::weight(b, own && b.boolean("bias"), "bias", 2, {n});
  if (own && b.stored()) return b.output(aten::stored_linear(b, x, weight, n, bias));
  b.output(aten::shared_output(b, aten::linear(b, x, weight, bias)));
  if (b.run().tensor_plan.sequence) b.hold({x});  // an argument of the module, until its hooks have run
}

const LayerDef kLayers[] = {
    {.name = "Linear",
     .summary = "y = x W^T + b over the last dimension",
     .math = "x [..., k], W [n, k], b [n] -> y [..., n]; m = product of the leading sizes.\n"
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
                 .derivation = "784*512 + 512 parameters; 128*784*512 multiply-adds; x is 128*784*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::linear
