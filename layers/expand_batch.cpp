// ExpandBatch: a tensor made for one sample, repeated for every sample of another one without memory.
//
// token.expand(x.size(0), -1, ...), what transformers of images do with their class token. A view; its gradient is
// summed over the batch by the engine.

#include "estimator/aten/views.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  Shape out = b.shape(b.input(0));
  const Shape like = b.shape(b.input(1));
  if (out.rank() < 1 || like.rank() < 1 || out[0] != 1)
    b.fail("expects a tensor [1, ...] and one [N, ...], got " + to_string(out) + " and " + to_string(like));
  out.set(0, like[0]);
  b.output(aten::expand(b, b.input(0), out));
}

const LayerDef kExpandBatch{
    .name = "ExpandBatch",
    .summary = "repeats a tensor for each sample of another one, without memory",
    .math = "x [1, ...], y [N, ...] -> x.expand(N, -1, ...). A view. Backward: a sum over the batch.",
    .parameters = {},
    .min_inputs = 2,
    .max_inputs = 2,
    .lower = lower,
    .example = {.call = "ExpandBatch()",
                .input_shapes = {{1, 1, 768}, {4, 196, 768}},
                .output_shape = {4, 1, 768},
                .derivation = "a view"},
};

const LayerDef* const kLayers[] = {&kExpandBatch};

}  // namespace

std::span<const LayerDef* const> expand_batch_layers() { return kLayers; }

}  // namespace gpuplan::layers
