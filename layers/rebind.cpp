// Rebind: `name = value` where `name` already named a tensor, which lives until then.
//
// `h = self.ln(x); r = h_attn + x; h = r` lets go of the norm's result only after the sum is there. An entry's result
// is otherwise released after the last entry that reads it. No kernel; it decides peaks where no autograd node keeps
// the old tensor: in inference, under autocast and in checkpointed blocks.
//
// HeldByGraph: what the function of a reentrant checkpoint has of the forward beside its arguments, as the keywords of
// a functools.partial. CheckpointFunction keeps the function (torch/utils/checkpoint.py, ctx.run_function), which goes
// with its node, not with the backward.

#include "estimator/graph/layer.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::rebind {
namespace {

void lower(LayerBuilder& b) {
  std::vector<TensorId> old;
  for (int i = 1; i < b.input_count(); ++i) old.push_back(b.input(i));
  b.hold(old);
  b.output(b.input());
}

void lower_held(LayerBuilder& b) {
  const bool as_written = b.run().checkpoint.kind == CheckpointConfig::Kind::as_written;  // other ones do not reenter
  if (as_written && b.training() && b.requires_grad(b.input()))
    for (int i = 1; i < b.input_count(); ++i) ModelBuilder(b).hold_with_graph(b.input(i));
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
    {.name = "HeldByGraph",
     .summary = "the first input, which a reentrant checkpoint is given, whose function has the other inputs",
     .math =
         "y = x: the same tensor. Where x wants a gradient, the other inputs live until loss and output are gone, as "
         "the\nkeywords of a function that a node of autograd keeps; not with another --checkpoint than the spec's. "
         "No kernel.",
     .min_inputs = 2,
     .max_inputs = 64,
     .indices = true,
     .lower = lower_held,
     .example = {.call = "HeldByGraph()",
                 .input_shapes = {{2, 10, 64}, {1, 10, 64}},
                 .derivation = "nothing is computed"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::rebind
