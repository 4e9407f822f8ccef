// Polar, ComplexMul: complex numbers, which a spec has as real tensors with the two parts of a number in the last
// dimension: view_as_real() of what PyTorch has, the same bytes.
//
// torch/csrc/autograd/FunctionsManual.cpp, mul_tensor_backward: each gradient is the incoming one times the other
// operand's conjugate, a view with a bit set, which mul has copied first (aten/src/ATen/ConjugateFallback.cpp).

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::complex_numbers {
namespace {

void expect_pairs(const LayerBuilder& b, TensorId t) {
  if (b.shape(t).rank() == 0 || b.shape(t)[-1] != 2)
    b.fail("expects pairs [..., 2] of real and imaginary parts, got " + to_string(b.shape(t)));
}

void lower_polar(LayerBuilder& b) {
  const TensorId size = b.input(0), angle = b.input(1);
  if (!(b.shape(size) == b.shape(angle)))
    b.fail("sizes " + to_string(b.shape(size)) + " and angles " + to_string(b.shape(angle)) + " have other shapes");
  Shape out = b.shape(size);
  out.push_back(2);
  b.output(aten::no_grad(b, Operator::polar, {size, angle}, out, b.dtype(size)));
}

// The gradient of the operand that is not `other`.
Operand gradient(NodeBuilder& node, LayerBuilder& b, TensorId other, const Shape& out, DType dtype) {
  const Operand conjugate = node.run(Operator::clone, Copy{b.elements(other)}, {other}, b.shape(other), dtype);
  const Operand product = node.run(Operator::mul, Elementwise{out.elements()}, {node.grad(), conjugate}, out, dtype);
  node.hold({conjugate});
  return product;
}

void lower_product(LayerBuilder& b) {
  const TensorId x = b.input(0), y = b.input(1);
  expect_pairs(b, x);
  expect_pairs(b, y);
  const Shape out = aten::broadcast(b, b.shape(x), b.shape(y));
  const DType dtype = b.dtype(x);
  const TensorId z = b.emit(Operator::mul, Elementwise{out.elements()}, {x, y}, out, dtype);
  if (NodeBuilder node = b.node("MulBackward0", z, {x, y})) {
    // Formulas are sorted by name, "other" before "self".
    const Operand dy = node.needs(y) ? gradient(node, b, x, out, dtype) : 0;
    const Operand dx = node.needs(x) ? gradient(node, b, y, out, dtype) : 0;
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
  }
  b.output(z);
}

const LayerDef kLayers[] = {
    {.name = "Polar",
     .summary = "complex numbers of sizes and angles, as pairs",
     .math = "r [...], phi [...] -> [..., 2]: r cos(phi), r sin(phi). No gradient.",
     .min_inputs = 2,
     .max_inputs = 2,
     .indices = true,
     .lower = lower_polar,
     .example = {.call = "Polar()",
                 .input_shapes = {{10, 4}, {10, 4}},
                 .input_dtype = DType::int64,
                 .output_shape = {10, 4, 2},
                 .derivation = "two numbers for each; nothing is saved"}},
    {.name = "ComplexMul",
     .summary = "the product of complex numbers, as pairs",
     .math = "x [..., 2] times y [..., 2] with broadcasting. Saved: x if y wants a gradient, y if x wants one. "
             "Backward: of\n"
             "each the other one's conjugate and the product.",
     .min_inputs = 2,
     .max_inputs = 2,
     .lower = lower_product,
     .example = {.call = "ComplexMul()",
                 .input_shapes = {{4, 10, 3, 4, 2}, {4, 10, 1, 4, 2}},
                 .saved_bytes = 5120,
                 .derivation = "x is 4*10*3*4*2*4 bytes, y 4*10*4*2*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::complex_numbers
