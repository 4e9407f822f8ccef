// All, Any: whether all elements are set, or one of them, of a tensor or over dimensions. Masks, without a gradient
// (aten/src/ATen/native/ReduceOps.cpp).

#include "estimator/aten/pointwise.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::all_and_any {
namespace {

template <Operator op>
void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const unsigned mask = dimension_mask(b, "dim", in.rank());
  const Reduction work{.shape = in, .reduced = mask, .input = b.dtype(x), .output = DType::boolean, .mean = true};
  b.output(b.emit(op, work, {x}, reduced_shape(in, mask, b.boolean("keepdim")), DType::boolean));
  b.attributes({{Attribute::dims, mask}});
}

LayerDef reduction(std::string_view name, std::string_view summary, void (*lowering)(LayerBuilder&),
                   std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "One byte an element of the result. No gradient.",
          .parameters = {{"dim", ParameterType::integers, "None", "dimension or list of dimensions; None: all"},
                         {"keepdim", ParameterType::boolean, "False", "keeps the reduced dimensions with size 1"}},
          .indices = true,
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .input_dtype = DType::boolean,
                      .output_shape = {4, 14, 14},
                      .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    reduction("All", "whether all elements over dimensions are set", lower<Operator::all>, "All(1)"),
    reduction("Any", "whether an element over dimensions is set", lower<Operator::any>, "Any(1)"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::all_and_any
