// ClassToken: a learned token in front of the others, as transformers of images have.
//
// cat([token.expand(N, -1, -1), x], 1). The token is expanded without memory; the gradients are parts of the incoming
// one, the token's summed over the batch by the engine. Under autocast the concatenation is of the wider type.

#include <array>

#include "estimator/aten/views.h"

namespace gpuplan::layers::class_token {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(3, "[N, T, features]");
  const Shape in = b.shape(b.input());
  const std::int64_t features = b.size("features", in[2], "features");
  const TensorId token = b.parameter("", {1, 1, features});
  const std::array<TensorId, 2> parts{aten::expand(b, token, {in[0], 1, features}), b.input()};
  b.output(aten::cat(b, parts, 1));
}

const LayerDef kLayers[] = {
    {.name = "ClassToken",
     .summary = "a learned token in front of the others",
     .math = "x [N, T, D], token [1, 1, D], named by the entry's path -> [N, T + 1, D]. Saved: nothing.",
     .parameters = {{"features", ParameterType::size, "", "features of a token, or _"}},
     .lower = lower,
     .example = {.call = "ClassToken(768)",
                 .input_shapes = {{4, 196, 768}},
                 .output_shape = {4, 197, 768},
                 .parameters = 768,
                 .derivation = "one token; only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::class_token
