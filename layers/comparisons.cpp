// Eq, Ne, Lt, Le, Gt, Ge: every element compared with a number, or with that of another tensor, as a boolean mask
// without a gradient.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::comparisons {
namespace {

template <Operator op>
void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.given("other") == (b.input_count() == 2)) b.fail("compares its input with a number, or with a second input");
  if (b.given("other"))
    return b.output(aten::no_grad(b, op, {x}, b.shape(x), DType::boolean, {{Attribute::other, b.real("other")}}));
  const TensorId both[] = {x, b.input(1)};
  b.output(aten::no_grad(b, op, both, aten::broadcast(b, b.shape(x), b.shape(both[1])), DType::boolean));
}

LayerDef comparison(std::string_view name, std::string_view summary, void (*lowering)(LayerBuilder&),
                    std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "One byte an element. No gradient. Two inputs are broadcast to each other.",
          .parameters = {{"other", ParameterType::real, "None", "the number; None: a second input"}},
          .min_inputs = 1,
          .max_inputs = 2,
          .indices = true,
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .input_dtype = DType::int64,
                      .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    comparison("Eq", "x == number or y, as a boolean mask", lower<Operator::eq>, "Eq(0)"),
    comparison("Ne", "x != number or y, as a boolean mask", lower<Operator::ne>, "Ne(0)"),
    comparison("Lt", "x < number or y, as a boolean mask", lower<Operator::lt>, "Lt(0)"),
    comparison("Le", "x <= number or y, as a boolean mask", lower<Operator::le>, "Le(0)"),
    comparison("Gt", "x > number or y, as a boolean mask", lower<Operator::gt>, "Gt(0)"),
    comparison("Ge", "x >= number or y, as a boolean mask", lower<Operator::ge>, "Ge(0)"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::comparisons
