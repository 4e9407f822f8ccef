// Histc: how many elements fall into each of so many bins.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::histogram {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const double least = b.real("min"), most = b.real("max");
  if (!(least < most)) b.fail("max", "the range is empty", "expected a min below max");
  b.output(aten::no_grad(b, Operator::histc, {x}, {b.size("bins")}, b.dtype(x),
                         {{Attribute::min, least}, {Attribute::max, most}}));
}

const LayerDef kLayers[] = {
    {.name = "Histc",
     .summary = "torch.histc: how many elements fall into each bin",
     .math = "x [...] -> [bins], of x's type. No gradient, nothing is saved.",
     .parameters = {{"bins", ParameterType::size, "100", "how many"},
                    {"min", ParameterType::real, "", "where the first one starts"},
                    {"max", ParameterType::real, "", "where the last one ends; elements outside are not counted"}},
     .indices = true,
     .lower = lower,
     .example = {.call = "Histc(8, min=0, max=7)",
                 .input_shapes = {{512}},
                 .input_dtype = DType::int64,
                 .output_shape = {8},
                 .derivation = "integers have no gradient, so nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::histogram
