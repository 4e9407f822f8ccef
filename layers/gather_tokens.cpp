// GatherTokens: what a module of sequence parallelism is given, of all tokens (torch/distributed/tensor/parallel/
// style.py, PrepareModuleInput from Shard(1) to Replicate).

#include "estimator/aten/tensor_parallel.h"

namespace gpuplan::layers::gather_tokens {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, features]");
  b.output(b.run().tensor_ranks == 1 ? b.input() : aten::gathered_tokens(b, b.input()));
}

const LayerDef kLayers[] = {
    {.name = "GatherTokens",
     .summary = "all tokens of hidden states that lie along them in sequence parallelism (--tp N,sequence)",
     .math = "x [b, s / ranks, h] -> [b, s, h]. A plan with sequence parallelism puts it before attention and "
             "feed-forward.\nSaved: nothing. Backward: the ranks' gradients are summed, and each keeps those of its "
             "tokens.",
     .lower = lower,
     .example = {.call = "GatherTokens()",
                 .input_shapes = {{2, 10, 16}},
                 .derivation = "one rank has all tokens; nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::gather_tokens
