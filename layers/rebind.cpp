// Rebind: `name = value` where `name` already named a tensor, which lives until then.
//
// `h = self.ln(x); r = h_attn + x; h = r` lets go of the norm's result only after the sum is there. An entry's result
// is otherwise released after the last entry that reads it. No kernel; it decides peaks where no autograd node keeps
// the old tensor: in inference, under autocast and in checkpointed blocks.

#include "estimator/graph/layer.h"

namespace gpuplan::layers::rebind {
namespace {

void lower(LayerBuilder& b) {
  std::vector<TensorId> old;
  for (int i = 1; i < b.input_count(); ++i) old.push_back(b.input(i));
  b.hold(old);
  b.output(b.input());
}

const LayerDef kLayers[] = {
    {.name = "Rebind",
     .summary = "the first input, assigned to a variable that held the other inputs until now",
     .math = "y = x: the same tensor. The other inputs live until here. No kernel.",
     .min_inputs = 2,
     .max_inputs = 8,
     .indices = true,
     .lower = lower,
     .example = {.call = "Rebind()", .input_shapes = {{2, 10, 64}, {2, 10, 64}}, .derivation = "nothing is computed"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::rebind
