// Attribute: `self.last = x` in a model's forward. The tensor stays alive after the step, until the next one has made
// the tensor that takes its place.

#include "estimator/graph/layer.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::attribute {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  ModelBuilder(b).replace_buffer(ModelBuilder(b).constant(b.shape(x), b.dtype(x)), x);
  b.output(x);
}

const LayerDef kLayers[] = {
    {.name = "Attribute",
     .summary = "self.last = x: stays alive until the next step assigns it again",
     .math = "x itself. No kernel. A training step begins with the tensor of the one before.",
     .indices = true,
     .lower = lower,
     .example = {.call = "Attribute()", .input_shapes = {{4, 10}}, .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::attribute
