// MaskedFill, Where: choosing elements by a boolean tensor.
//
// tools/autograd/derivatives.yaml: masked_fill saves the mask and its gradient is the incoming one, filled; where saves
// the condition, and each gradient is chosen against a scalar zero that the function makes.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/promote.h"

namespace gpuplan::layers::masking {
namespace {

void expect_boolean(const LayerBuilder& b, int i) {
  if (b.dtype(b.input(i)) != DType::boolean)
    b.fail("expects a boolean mask, input " + std::to_string(i) + " is " + std::string(name_of(b.dtype(b.input(i)))));
}

void lower_masked_fill(LayerBuilder& b) {
  expect_boolean(b, 1);
  b.output(aten::masked_fill(b, b.input(0), b.input(1), b.real("value"), b.boolean("inplace")));
}

// where(condition, grad, 0) or where(condition, 0, grad): the number becomes a tensor on the device first.
// `number`: 2 where 0 is the third argument, 1 where it is the second.
Operand chosen(NodeBuilder& node, TensorId condition, const Shape& shape, DType dtype, double number) {
  const OutputSpec results[] = {{Shape{}, dtype}, {shape, dtype}};
  const Operand y = node.run_many(Operator::where, Elementwise{shape.elements()}, {condition, node.grad()}, results)[1];
  node.attributes({{Attribute::self, 0}, {Attribute::other, number}});
  return y;
}

void lower_where(LayerBuilder& b) {
  expect_boolean(b, 0);
  const TensorId condition = b.input(0);
  const DType dtype = aten::promote(b.dtype(b.input(1)), b.dtype(b.input(2)));
  const TensorId x = b.cast(b.input(1), dtype), y = b.cast(b.input(2), dtype);
  const Shape shape = aten::broadcast(b, aten::broadcast(b, b.shape(condition), b.shape(x)), b.shape(y));
  const TensorId z = b.emit(Operator::where, Elementwise{shape.elements()}, {condition, x, y}, shape, dtype);
  if (NodeBuilder node = b.node("WhereBackward0", z, {x, y})) {
    // Formulas are sorted by name, "other" before "self".
    const Operand dy = node.needs(y) ? chosen(node, condition, shape, dtype, 1) : 0;
    const Operand dx = node.needs(x) ? chosen(node, condition, shape, dtype, 2) : 0;
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
  }
  b.output(z);
}

const LayerDef kLayers[] = {
    {.name = "MaskedFill",
     .summary = "a number where a boolean mask is set",
     .math = "x [...], mask broadcast to it -> x with `value` where the mask is true. Saved: the mask.",
     .parameters = {{"value", ParameterType::real, "", "the number, -inf for attention scores"},
                    {"inplace", ParameterType::boolean, "False", "writes into its first input"}},
     .min_inputs = 2,
     .lower = lower_masked_fill,
     .example = {.call = "MaskedFill(0)",
                 .input_shapes = {{4, 8, 14, 14}, {4, 8, 14, 14}},
                 .input_dtype = DType::boolean,
                 .derivation = "booleans have no gradient; a floating-point x saves the mask, 4*8*14*14 bytes"}},
    {.name = "Where",
     .summary = "x where a boolean mask is set, y elsewhere",
     .math = "condition, x, y broadcast. Saved: the condition. Backward: a full gradient for each of x and y.",
     .min_inputs = 3,
     .indices = true,
     .lower = lower_where,
     .example = {.call = "Where()",
                 .input_shapes = {{4, 8, 14, 14}, {4, 8, 14, 14}, {4, 8, 14, 14}},
                 .input_dtype = DType::boolean,
                 .derivation = "booleans have no gradient; floating-point x or y save the condition, 4*8*14*14 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::masking
