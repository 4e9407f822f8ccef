// Linear: y = x W^T + b over the last dimension.
//
// With a bias, F.linear is addmm on the flattened input, and cuBLASLt adds the bias in its epilogue
// (aten/src/ATen/native/Linear.cpp, cuda/Blas.cpp). Without one it is mm. Per-input guard (derivatives.yaml): the
// input is saved only when the weight wants a gradient, the weight only when the input wants one. The bias
// gradient is the engine's sum_to over the rows, after both products. addmm's backward computes dX first, mm's dW.

#include "estimator/graph/layer.h"
#include "estimator/integers.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape& in_shape = b.shape(x);
  if (in_shape.rank() < 1) b.fail("expects an input [..., in_features]");
  const std::int64_t k = b.size("in_features", in_shape[-1], "input features");
  const std::int64_t n = b.size("out_features");
  const std::int64_t m = in_shape.elements(0, in_shape.rank() - 1);
  const DType dtype = b.dtype(x);
  Shape out_shape = in_shape;
  out_shape.set(-1, n);

  const TensorId w = b.parameter("weight", {n, k});
  const TensorId bias = b.boolean("bias") ? b.parameter("bias", {n}) : kNone;
  const Gemm product{.m = m, .n = n, .k = k, .bias_epilogue = bias != kNone, .dtype = dtype};
  const TensorId y = bias != kNone ? b.emit("aten::addmm", product, {x, w, bias}, out_shape, dtype)
                                   : b.emit("aten::mm", product, {x, w}, out_shape, dtype);

  if (NodeBuilder node = b.node(bias != kNone ? "AddmmBackward0" : "MmBackward0", y, {x, w, bias})) {
    const Operand dy = node.grad();
    Operand dx = 0;
    Operand dw = 0;
    const auto run_dx = [&] {
      if (node.needs(x))
        dx = node.run("aten::mm", Gemm{.m = m, .n = k, .k = n, .dtype = dtype}, {dy, w}, b.shape(x), dtype);
    };
    const auto run_dw = [&] {
      if (node.needs(w))
        dw = node.run("aten::mm", Gemm{.m = n, .n = k, .k = m, .dtype = dtype}, {dy, x}, {n, k}, dtype);
    };
    if (bias != kNone) {
      run_dx();
      run_dw();
    } else {
      run_dw();
      run_dx();
    }
    if (node.needs(bias))
      node.give(bias, m == 1 ? node.view(dy)
                             : node.run("aten::sum", Reduction{{m, n}, 0b01, dtype, dtype}, {dy}, {n}, dtype));
    // The products are of [m, k] and W^T: their gradients go through a view and a transposition.
    if (node.needs(x)) node.give(x, in_shape.rank() == 2 ? dx : node.view(dx));
    if (node.needs(w)) node.give(w, node.view(dw));
  }
  b.output(y);
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

std::span<const LayerDef* const> linear_layers() { return kLayers; }

}  // namespace gpuplan::layers
