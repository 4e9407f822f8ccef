// ClampTensor: torch.clamp whose bounds are tensors, of one element or broadcast to x.

#include <string>

#include "estimator/aten/clamp.h"

namespace gpuplan::layers::clamp_tensor {
namespace {

void lower(LayerBuilder& b) {
  const std::string_view bound = b.word("bound");
  if (bound != "min" && bound != "max") b.fail("bound", "expects min or max, got " + std::string(bound));
  const bool both = b.input_count() == 3;
  if (both && b.given("bound"))
    b.fail("bound", "bound is for a single tensor; the inputs here are the lower and the upper bound");
  const bool least = both || bound == "min";
  const TensorId largest = both ? b.input(2) : least ? kNone : b.input(1);
  b.output(aten::clamp(b, b.input(0), least ? b.input(1) : kNone, largest));
}

const LayerDef kLayers[] = {
    {.name = "ClampTensor",
     .summary = "torch.clamp with bounds that are tensors",
     .math =
         "y = min(max(x, low), high), of inputs x, low, high. Saved: x and the bounds. Backward: masks of one byte an\n"
         "element, and one gradient.",
     .parameters = {{"bound", ParameterType::word, "min", "what a single bound is: min or max"}},
     .min_inputs = 2,
     .max_inputs = 3,
     .indices = true,
     .lower = lower,
     .example = {.call = "ClampTensor()",
                 .input_shapes = {{2, 8, 4, 4}, {}, {}},
                 .input_dtype = DType::int64,
                 .derivation = "integers have no gradient: nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::clamp_tensor
