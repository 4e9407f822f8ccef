// TruncNormalInit: that a model's constructor draws weights from a truncated normal distribution once all are there.
//
// No kernel of the step, but the masks that nn.init.trunc_normal_ rejects samples with leave segments behind, which the
// steps then find in the allocator's cache (torch/nn/init.py, _no_grad_trunc_normal_).

#include "estimator/graph/layer.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::truncated_normal {
namespace {

void lower(LayerBuilder& b) {
  if (b.boolean("conv")) ModelBuilder(b).initialize_truncated("Conv2d", "weight");
  if (b.boolean("linear")) {
    ModelBuilder(b).initialize_truncated("Linear", "weight");
    for (const std::string_view weight : {"qkv.weight", "proj.weight"})
      ModelBuilder(b).initialize_truncated("ShiftedWindowAttention", weight);
  }
  b.output(b.input());
}

const LayerDef kLayers[] = {
    {.name = "TruncNormalInit",
     .summary = "notes that the constructor draws weights by nn.init.trunc_normal_",
     .math =
         "y = x: the same tensor. Written last. The masks it draws with (from PyTorch 2.9 on) stay cached as segments.",
     .parameters = {{"linear", ParameterType::boolean, "True", "weights of Linear layers"},
                    {"conv", ParameterType::boolean, "False", "weights of Conv2d layers"}},
     .lower = lower,
     .example = {.call = "TruncNormalInit()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .derivation = "nothing happens in a step"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::truncated_normal
