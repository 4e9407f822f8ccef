// Add, Sub, Mul, Div: element by element, of two tensors with broadcasting or of one and a number.
//
// Per-input guards (derivatives.yaml): add and sub save nothing; mul and div save an operand only where the other one's
// gradient reads it. In place, an operand that the gradients need is cloned before it is overwritten. Autograd computes
// the second operand's gradient first (formulas are sorted by name, "other" before "self"), each at the result's size;
// the engine then sums to the operands' shapes, in their order (torch/csrc/autograd/engine.cpp, validate_outputs).
// Add hands on the incoming gradient itself.

#include <string>

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::arithmetic {
namespace {

using Kind = aten::Binary;

template <Kind kind>
void lower(LayerBuilder& b) {
  const bool in_place = b.boolean("inplace");
  if (b.input_count() == 2) {
    if (b.given("other")) b.fail("other", "has two inputs and a number", "leave it out, or give one input");
    return b.output(aten::binary(b, kind, b.input(0), b.input(1), in_place));
  }
  if (!b.given("other")) b.fail("needs two inputs (from: [A, B]), or one and a number (other=...)");
  b.output(aten::binary_number(b, kind, b.input(), b.real("other"), in_place, b.is_integer("other")));
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
                      .saved_bytes = saved,
                      .derivation = derivation}};
}

const LayerDef kLayers[] = {
    definition("Add", "x + y",
               "z = x + y with broadcasting. Saved: nothing. Both inputs get the incoming gradient itself.",
               lower<Kind::add>, "Add()", 0, "nothing is saved"),
    definition("Sub", "x - y", "z = x - y with broadcasting. Saved: nothing.", lower<Kind::sub>, "Sub()", 0,
               "nothing is saved"),
    definition("Mul", "x * y", "z = x y with broadcasting. Saved: x if y wants a gradient, y if x wants one.",
               lower<Kind::mul>, "Mul()", 25'216, "x is 4*8*14*14*4 bytes, y 4*8*4"),
    definition("Div", "x / y", "z = x / y with broadcasting. Saved: y; x too if y wants a gradient.", lower<Kind::div>,
               "Div()", 25'216, "x is 4*8*14*14*4 bytes, y 4*8*4"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::arithmetic
