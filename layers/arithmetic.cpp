// Add, Sub, Mul, Div: element by element, of two tensors with broadcasting or of one and a number.
//
// Per-input guards (derivatives.yaml): add and sub save nothing; mul and div save an operand only where the other one's
// gradient reads it. In place, an operand that the gradients need is cloned before it is overwritten. Autograd computes
// the second operand's gradient first (formulas are sorted by name, "other" before "self"), each at the result's size;
// the engine then sums to the operands' shapes, in their order (torch/csrc/autograd/engine.cpp, validate_outputs).
// Add hands on the incoming gradient itself.

#include <algorithm>
#include <array>
#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers {
namespace {

enum class Kind : std::uint8_t { add, sub, mul, div };

struct Names {
  std::string_view op, in_place, node;
};

constexpr std::array<Names, 4> kNames{{{"aten::add", "aten::add_", "AddBackward0"},
                                       {"aten::sub", "aten::sub_", "SubBackward0"},
                                       {"aten::mul", "aten::mul_", "MulBackward0"},
                                       {"aten::div", "aten::div_", "DivBackward0"}}};

const Names& names(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

Shape broadcast(const LayerBuilder& b, const Shape& x, const Shape& y) {
  const int rank = std::max(x.rank(), y.rank());
  Shape out;
  for (int i = rank; i > 0; --i) {
    const std::int64_t m = i <= x.rank() ? x[-i] : 1;
    const std::int64_t n = i <= y.rank() ? y[-i] : 1;
    if (m != n && m != 1 && n != 1)
      b.fail("the shapes " + to_string(x) + " and " + to_string(y) + " do not broadcast: " + std::to_string(m) +
             " against " + std::to_string(n) + " in dimension " + std::to_string(-i));
    out.push_back(m == 1 ? n : m);
  }
  return out;
}

// A gradient of the result's shape, summed over what was broadcast (aten/src/ATen/ExpandUtils.h, sum_to).
Operand sum_to(NodeBuilder& node, Operand gradient, const Shape& from, const Shape& to, DType dtype) {
  if (from == to) return gradient;
  unsigned mask = 0;
  const int leading = from.rank() - to.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (i < leading || (to[i - leading] == 1 && from[i] != 1)) mask |= 1U << i;
  return node.run("aten::sum", Reduction{.shape = from, .reduced = mask, .input = dtype, .output = dtype}, {gradient},
                  to, dtype);
}

// (x / y) / y times -grad: three temporaries, which autograd holds until the product is there (div_tensor_other_grad).
Operand divisor_gradient(NodeBuilder& node, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  const Operand quotient = node.run("aten::div", each, {x, y}, out, dtype);
  const Operand square = node.run("aten::div", each, {quotient, y}, out, dtype);
  const Operand minus = node.run("aten::neg", each, {node.grad()}, out, dtype);
  const Operand result = node.run("aten::mul", each, {minus, square}, out, dtype);
  node.run_in_place("return", Marker{}, {minus, square, quotient});
  return result;
}

Operand gradient_of_second(NodeBuilder& node, Kind kind, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  switch (kind) {
    case Kind::add: return node.grad();
    case Kind::sub: return node.run("aten::neg", each, {node.grad()}, out, dtype);
    case Kind::mul: return node.run("aten::mul", each, {node.grad(), x}, out, dtype);
    case Kind::div: return divisor_gradient(node, x, y, out, dtype);
  }
  return node.grad();
}

Operand gradient_of_first(NodeBuilder& node, Kind kind, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  if (kind == Kind::mul) return node.run("aten::mul", each, {node.grad(), y}, out, dtype);
  if (kind == Kind::div) return node.run("aten::div", each, {node.grad(), y}, out, dtype);
  return node.grad();
}

void lower_tensors(LayerBuilder& b, Kind kind, bool in_place) {
  const TensorId x = b.input(0);
  const TensorId y = b.input(1);
  const DType dtype = b.dtype(x);
  if (b.dtype(y) != dtype)
    b.fail("its inputs are " + std::string(name_of(dtype)) + " and " + std::string(name_of(b.dtype(y))) +
           ", expected one type");
  const Shape x_shape = b.shape(x);
  const Shape y_shape = b.shape(y);
  const Shape out = broadcast(b, x_shape, y_shape);
  if (in_place && !(out == x_shape))
    b.fail("inplace", "in place, its first input " + to_string(x_shape) + " would have to grow to " + to_string(out));

  TensorId kept = x;  // what the second operand's gradient reads
  const bool product = kind == Kind::mul || kind == Kind::div;
  if (in_place && product && b.requires_grad(y))
    kept = b.emit("aten::clone", Copy{x_shape.elements()}, {x}, x_shape, dtype);
  const Elementwise work{out.elements()};
  const TensorId z =
      in_place ? b.emit_in_place(names(kind).in_place, work, {x, y}) : b.emit(names(kind).op, work, {x, y}, out, dtype);
  if (NodeBuilder node = b.node(names(kind).node, z, {x, y})) {
    Operand dx = 0;
    Operand dy = 0;
    if (node.needs(y)) dy = gradient_of_second(node, kind, kept, y, out, dtype);
    if (node.needs(x)) dx = gradient_of_first(node, kind, y, out, dtype);
    if (node.needs(x)) node.give(x, sum_to(node, dx, out, x_shape, dtype));
    if (node.needs(y)) node.give(y, sum_to(node, dy, out, y_shape, dtype));
  }
  b.output(z);
}

void lower_number(LayerBuilder& b, Kind kind, bool in_place) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  (void)b.real("other");
  const Elementwise work{shape.elements()};
  const TensorId y =
      in_place ? b.emit_in_place(names(kind).in_place, work, {x}) : b.emit(names(kind).op, work, {x}, shape, dtype);
  if (NodeBuilder node = b.node(names(kind).node, y, {x})) {
    const bool product = kind == Kind::mul || kind == Kind::div;
    node.give(x, product ? node.run(names(kind).op, work, {node.grad()}, shape, dtype) : node.grad());
  }
  b.output(y);
}

template <Kind kind>
void lower(LayerBuilder& b) {
  const bool in_place = b.boolean("inplace");
  if (b.input_count() == 2) {
    if (b.given("other")) b.fail("other", "has two inputs and a number", "leave it out, or give one input");
    return lower_tensors(b, kind, in_place);
  }
  if (!b.given("other")) b.fail("needs two inputs (from: [A, B]), or one and a number (other=...)");
  lower_number(b, kind, in_place);
}

LayerDef definition(std::string_view name, std::string_view summary, std::string_view math,
                    void (*lowering)(LayerBuilder&), std::string_view call, std::int64_t saved,
                    std::string_view derivation) {
  return {.name = name,
          .summary = summary,
          .math = math,
          .parameters = {{"other", ParameterType::real, "None", "a number instead of a second input"},
                         {"inplace", ParameterType::boolean, "False", "writes into its first input"}},
          .min_inputs = 1,
          .max_inputs = 2,
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}, {4, 8, 1, 1}},
                      .output_shape = {4, 8, 14, 14},
                      .saved_bytes = saved,
                      .derivation = derivation}};
}

const LayerDef kAdd =
    definition("Add", "x + y", "z = x + y with broadcasting. Saved: nothing. Both get the incoming gradient itself.",
               lower<Kind::add>, "Add()", 0, "nothing is saved");
const LayerDef kSub = definition("Sub", "x - y", "z = x - y with broadcasting. Saved: nothing.", lower<Kind::sub>,
                                 "Sub()", 0, "nothing is saved");
const LayerDef kMul =
    definition("Mul", "x * y", "z = x y with broadcasting. Saved: x if y wants a gradient, y if x wants one.",
               lower<Kind::mul>, "Mul()", 25'216, "x is 4*8*14*14*4 bytes, y 4*8*4");
const LayerDef kDiv = definition("Div", "x / y", "z = x / y with broadcasting. Saved: y; x too if y wants a gradient.",
                                 lower<Kind::div>, "Div()", 25'216, "x is 4*8*14*14*4 bytes, y 4*8*4");

const LayerDef* const kLayers[] = {&kAdd, &kSub, &kMul, &kDiv};

}  // namespace

std::span<const LayerDef* const> arithmetic_layers() { return kLayers; }

}  // namespace gpuplan::layers
