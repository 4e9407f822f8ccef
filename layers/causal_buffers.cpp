// CausalBuffers: what GPT-2's attention registered before transformers 5, and never read with an SDPA kernel or the
// masks of today.
//
// transformers 4.56, models/gpt2/modeling_gpt2.py, GPT2Attention.__init__: `bias`, a triangle of booleans [1, 1, n, n],
// made of ones by tril, and `masked_bias`, a number.

#include "estimator/aten/embedding.h"
#include "estimator/aten/transformers.h"
#include "estimator/graph/layer.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::causal_buffers {
namespace {

void lower(LayerBuilder& b) {
  const std::int64_t n = b.size("max_positions");
  if (b.shape(b.input()).rank() > 1) aten::expect_learned_positions(b, "max_positions", n, b.shape(b.input())[1]);
  if (b.before(kTransformers5)) {
    ModelBuilder(b).constructor_temporary({n, n}, DType::boolean);
    b.buffer("bias", {1, 1, n, n}, DType::boolean);
    b.buffer("masked_bias", {}, b.run().precision);
  }
  b.output(b.input());
}

const LayerDef kLayers[] = {
    {.name = "CausalBuffers",
     .summary = "the causal triangle that GPT-2's attention kept before transformers 5",
     .math = "Hands on its input. With PyTorch releases taken to run transformers 4: n n booleans and a number.",
     .parameters = {{"max_positions", ParameterType::size, "", "longest sequence"}},
     .lower = lower,
     .example = {.call = "CausalBuffers(1024)", .input_shapes = {{2, 10, 64}}, .derivation = "nothing is computed"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::causal_buffers
