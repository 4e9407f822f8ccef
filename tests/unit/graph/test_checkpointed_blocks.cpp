// Which blocks `--checkpoint block` and `every=N` take. The bytes of such steps are compared with recordings
// (tests/recorded/fine_tuning, gemma2, gemma3, gpt_oss and deepseek_v3).
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

// As transformers' decoders are written whose layers differ in the windows of their attention.
const std::string kListed =
    "gpuplan: 1\ninput: {shape: [64]}\n"
    "blocks:\n"
    "  Layer:\n    layers:\n      - mlp.0: Linear(64, 64)\n      - mlp.1: Linear(64, 64)\n"
    "layers:\n"
    "  - stem.0: Linear(64, 64)\n"
    "  - layers.0: {block: Layer}\n  - layers.1: {block: Layer}\n  - layers.2: {block: Layer}\n"
    "  - head: {block: Layer}\n";

std::int64_t checkpointed(CheckpointConfig::Kind kind, std::int64_t every = 1) {
  auto source = std::make_shared<Source>();
  source->name = "model.yaml";
  source->text = kListed;
  RunConfig run;
  run.checkpoint.kind = kind;
  run.checkpoint.every = every;
  return plan(read_model(source, {}), make_catalog(), run).model.checkpointed_blocks;
}

}  // namespace

TEST_CASE("blocks that are written one by one with numbers are items of a list, as those of repeat") {
  CHECK(checkpointed(CheckpointConfig::Kind::block) == 3);
  CHECK(checkpointed(CheckpointConfig::Kind::every, 2) == 2);
}

}  // namespace gpuplan
