// Maximum, Minimum, LogicalAnd, LogicalOr, LogicalXor: of each pair of elements the larger or smaller one; masks
// joined.
//
// tools/autograd/derivatives.yaml: maximum and minimum save both inputs; a gradient is halved where the two are equal,
// where(x == y, grad / 2, grad), and filled with 0 where the other one is the result. Masks have no gradient.

#include <array>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/promote.h"

namespace gpuplan::layers::extremes_of_two {
namespace {

struct Names {
  Operator op;
  std::string_view node;
  Operator x_loses, y_loses;  // the comparisons of x with y
};

// The part of the gradient that goes to the one that a comparison does not leave out.
Operand part(NodeBuilder& node, TensorId x, TensorId y, Operator loses, const Shape& shape, DType dtype) {
  const Elementwise each{shape.elements()};
  const Operand lost = node.run(loses, each, {x, y}, shape, DType::boolean);
  const Operand half = node.run(Operator::div, each, {node.grad()}, shape, dtype);
  node.attributes({{Attribute::other, 2}});
  const Operand equal = node.run(Operator::eq, each, {x, y}, shape, DType::boolean);
  const Operand chosen = node.run(Operator::where, each, {equal, half, node.grad()}, shape, dtype);
  node.run_in_place(Operator::masked_fill_, each, {chosen, lost});
  node.attributes({{Attribute::value, 0}});
  node.hold({equal, half, lost});
  return chosen;
}

void lower_extreme(LayerBuilder& b, const Names& names) {
  const DType dtype = aten::promote(b.dtype(b.input(0)), b.dtype(b.input(1)));
  const TensorId x = b.cast(b.input(0), dtype), y = b.cast(b.input(1), dtype);
  const Shape shape = aten::broadcast(b, b.shape(x), b.shape(y));
  const TensorId z = b.emit(names.op, Elementwise{shape.elements()}, {x, y}, shape, dtype);
  if (NodeBuilder node = b.node(names.node, z, {x, y})) {
    // Formulas are sorted by name, "other" before "self".
    const Operand dy = node.needs(y) ? part(node, x, y, names.y_loses, shape, dtype) : 0;
    const Operand dx = node.needs(x) ? part(node, x, y, names.x_loses, shape, dtype) : 0;
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
  }
  b.output(z);
}

void lower_maximum(LayerBuilder& b) {
  lower_extreme(b, {Operator::maximum, "MaximumBackward0", Operator::lt, Operator::gt});
}
void lower_minimum(LayerBuilder& b) {
  lower_extreme(b, {Operator::minimum, "MinimumBackward0", Operator::gt, Operator::lt});
}

template <Operator op>
void lower_logical(LayerBuilder& b) {
  const TensorId both[] = {b.input(0), b.input(1)};
  b.output(aten::no_grad(b, op, both, aten::broadcast(b, b.shape(both[0]), b.shape(both[1])), DType::boolean));
}

LayerDef extreme(std::string_view name, std::string_view summary, void (*lower)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "Broadcast to each other. Saved: x and y. Backward: of each a half, two masks and the gradient.",
          .min_inputs = 2,
          .lower = lower,
          .example = {.call = call,
                      .input_shapes = {{4, 8}, {4, 8}},
                      .saved_bytes = 256,
                      .derivation = "x and y, 4*8*4 bytes each"}};
}

LayerDef logical(std::string_view name, std::string_view summary, void (*lower)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "Broadcast to each other. One byte an element. No gradient.",
          .min_inputs = 2,
          .indices = true,
          .lower = lower,
          .example = {.call = call,
                      .input_shapes = {{4, 8}, {4, 8}},
                      .input_dtype = DType::boolean,
                      .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    extreme("Maximum", "the larger of every two elements", lower_maximum, "Maximum()"),
    extreme("Minimum", "the smaller of every two elements", lower_minimum, "Minimum()"),
    logical("LogicalAnd", "where both masks are set", lower_logical<Operator::logical_and>, "LogicalAnd()"),
    logical("LogicalOr", "where one of two masks is set", lower_logical<Operator::logical_or>, "LogicalOr()"),
    logical("LogicalXor", "where just one of two masks is set", lower_logical<Operator::logical_xor>, "LogicalXor()"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::extremes_of_two
