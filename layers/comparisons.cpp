// Ne, Lt, Le, Gt, Ge: every element compared with a number, as a boolean mask without a gradient. Eq is in masking.cpp.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers {
namespace {

template <char const* op>
void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::no_grad(b, op, std::span<const TensorId>(&x, 1), b.shape(x), DType::boolean, {b.real("other")}));
}

constexpr char kNe[] = "aten::ne", kLt[] = "aten::lt", kLe[] = "aten::le", kGt[] = "aten::gt", kGe[] = "aten::ge";

LayerDef comparison(std::string_view name, std::string_view summary, void (*lowering)(LayerBuilder&),
                    std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "One byte an element. No gradient.",
          .parameters = {{"other", ParameterType::real, "", "the number"}},
          .indices = true,
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .input_dtype = DType::int64,
                      .output_shape = {4, 8, 14, 14},
                      .derivation = "nothing is saved"}};
}

const LayerDef kDefs[] = {
    comparison("Ne", "x != number, as a boolean mask", lower<kNe>, "Ne(0)"),
    comparison("Lt", "x < number, as a boolean mask", lower<kLt>, "Lt(0)"),
    comparison("Le", "x <= number, as a boolean mask", lower<kLe>, "Le(0)"),
    comparison("Gt", "x > number, as a boolean mask", lower<kGt>, "Gt(0)"),
    comparison("Ge", "x >= number, as a boolean mask", lower<kGe>, "Ge(0)"),
};

const LayerDef* const kLayers[] = {&kDefs[0], &kDefs[1], &kDefs[2], &kDefs[3], &kDefs[4]};

}  // namespace

std::span<const LayerDef* const> comparisons_layers() { return kLayers; }

}  // namespace gpuplan::layers
