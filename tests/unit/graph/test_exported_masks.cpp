// Hugging Face's models as tools/python/gpuplan writes them, with an attention_mask and without. The scoreboard has
// their recordings.
#include <doctest/doctest.h>

#include <string>

#include "estimator/graph/build.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

using testing::contains;
using testing::read_spec;

RunConfig training() {
  RunConfig c;
  c.batch = 8;
  return c;
}

}  // namespace

// aten/src/ATen/native/transformers/attention.cpp: scaled_dot_product_attention converts a boolean mask
// [batch, 1, tokens, tokens] to the queries' type, in each call for itself, and the kernel saves the result.
TEST_CASE("each layer saves a mask of its own where there is padding") {
  const auto saved = [](std::int64_t padded) {
    return plan_spec("tests/exported/masks/small-bert", training(), "h200", {{"padded", padded}})
        .bytes.saved_for_backward;
  };
  constexpr std::int64_t kLayers = 3, kBatch = 8, kTokens = 64, kFloat = 4;
  CHECK_EQ(saved(1) - saved(0), kLayers * kBatch * kTokens * kTokens * kFloat);
}

TEST_CASE("an attention_mask that does not go with the embeddings is refused") {
  const auto refusal = [](const std::string& mask) {
    try {
      (void)build_graph(read_spec("gpuplan: 1\ninputs:\n  x: {shape: [16, 8]}\n  mask: {shape: " + mask +
                                  ", dtype: int64}\nlayers:\n  - {name: m, op: \"AttentionMask()\", from: [x, mask]}\n "
                                  " - {op: Identity(), from: x}\n"),
                        make_catalog(), training(), assumed_gpu());
      return std::string();
    } catch (const Error& error) {
      return error.render();
    }
  };
  CHECK_EQ(refusal("[16]"), "");
  CHECK_EQ(refusal("[20]"), "");  // keys that queries of another length attend to
  CHECK(contains(refusal("[16, 1]"),
                 "expects embeddings [batch, tokens, ...] and an attention_mask [batch, tokens], got"));
}

}  // namespace gpuplan
