// Addcmul: x + value a b, in one kernel.
//
// Under autocast all three are of the widest type among them (autocast_mode.h). Saves a and b. Each of their gradients
// is the incoming one times the other factor, which is first multiplied by `value`, be it 1
// (torch/csrc/autograd/FunctionsManual.cpp and derivatives.yaml, addcmul): b's comes after a's.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/promote.h"

namespace gpuplan::layers::addcmul {
namespace {

Operand gradient(NodeBuilder& node, const LayerBuilder& b, TensorId other, const Shape& out, DType dtype) {
  const Shape shape = b.shape(other);
  const Operand factor = node.run(Operator::mul, Elementwise{shape.elements()}, {other}, shape, b.dtype(other));
  node.attributes({{Attribute::other, b.real("value")}});
  return node.run(Operator::mul, Elementwise{out.elements()}, {node.grad(), factor}, out, dtype);
}

void lower(LayerBuilder& b) {
  TensorId x = b.input(0), first = b.input(1), second = b.input(2);
  if (b.autocast()) {
    const DType widest = aten::promote(b.dtype(x), aten::promote(b.dtype(first), b.dtype(second)));
    for (TensorId* const operand : {&x, &first, &second}) *operand = b.cast(*operand, widest);
  }
  const Shape out = aten::broadcast(b, aten::broadcast(b, b.shape(x), b.shape(first)), b.shape(second));
  const DType dtype = b.dtype(x);
  const TensorId y = b.emit(Operator::addcmul, each_of(Operator::addcmul, out), {x, first, second}, out, dtype);
  b.attributes({{Attribute::value, b.real("value")}});
  if (NodeBuilder node = b.node("AddcmulBackward0", y, {x, first, second})) {
    const Operand of_first = node.needs(first) ? gradient(node, b, second, out, dtype) : 0;
    const Operand of_second = node.needs(second) ? gradient(node, b, first, out, dtype) : 0;
    if (node.needs(x)) node.give(x, node.grad());
    if (node.needs(first)) node.give(first, of_first);
    if (node.needs(second)) node.give(second, of_second);
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "Addcmul",
     .summary = "x + value a b",
     .math = "y = x + value a b with broadcasting. Saved: a and b.",
     .parameters = {{"value", ParameterType::real, "1", "factor of the product"}},
     .min_inputs = 3,
     .lower = lower,
     .example = {.call = "Addcmul()",
                 .input_shapes = {{4, 8, 14, 14}, {4, 8, 14, 14}, {4, 8, 1, 1}},
                 .saved_bytes = 25'216,
                 .derivation = "a is 4*8*14*14*4 bytes, b 4*8*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::addcmul
