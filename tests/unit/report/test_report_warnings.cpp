// What a person is told of a plan that is right and still may not be what was meant.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "layers/catalog.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

using namespace gpuplan;

namespace {

bool warns(const Report& report, const std::string& words) {
  return std::ranges::any_of(report.warnings, [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

RunConfig two_samples() {
  RunConfig run;
  run.batch = 2;
  return run;
}

}  // namespace

TEST_CASE("checkpointing that finds no block is said") {
  RunConfig run = two_samples();
  run.checkpoint.kind = CheckpointConfig::Kind::glob;
  run.checkpoint.glob = "layer9.*";
  CHECK(warns(plan_zoo("resnet18", run), "no block is called \"layer9.*\": nothing is checkpointed"));
  run.checkpoint.glob = "layer1.*";
  const Report two_blocks = plan_zoo("resnet18", run);
  CHECK_FALSE(warns(two_blocks, "checkpointed"));
  CHECK_EQ(two_blocks.model.checkpointed_blocks, 2);
  run.checkpoint.kind = CheckpointConfig::Kind::block;
  CHECK(warns(plan_zoo("mlp", run), "the model has no repeated block: nothing is checkpointed"));
}

TEST_CASE("an attention kernel for a model without attention is said") {
  RunConfig run = two_samples();
  run.attention = Attention::math;
  CHECK(warns(plan_zoo("mlp", run), "no layer is attention"));
  CHECK_FALSE(warns(plan_zoo("gpt2", run), "no layer is attention"));
}

TEST_CASE("a type that the named GPU does not compute is said, and only of a named one") {
  RunConfig run = two_samples();
  run.autocast = DType::bf16;
  CHECK(warns(plan_zoo("resnet18", run, "t4"), "NVIDIA T4 has no native bf16"));
  CHECK_FALSE(warns(plan_zoo("resnet18", run, "h100"), "arithmetic"));
  CHECK_FALSE(warns(plan_zoo("resnet18", run), "arithmetic"));
}

// What is computed again is a row of its own, so that the layers' rows sum to the totals, also over micro-batches.
TEST_CASE("layers' FLOPs sum to the step's, with micro-batches and checkpointing") {
  RunConfig run = two_samples();
  run.batch = 8;
  const Report whole = plan_zoo("resnet18", run);
  run.micro_batches = 4;
  run.checkpoint.kind = CheckpointConfig::Kind::block;
  const Report parts = plan_zoo("resnet18", run);
  CHECK_EQ(parts.compute.forward_flops, whole.compute.forward_flops);
  CHECK_EQ(parts.compute.backward_flops, whole.compute.backward_flops);
  CHECK_EQ(whole.compute.recompute_flops, 0);
  CHECK_GT(parts.compute.recompute_flops, 0);
  CHECK_LT(parts.compute.recompute_flops, parts.compute.forward_flops);
  std::int64_t macs = 0, backward = 0, again = 0;
  for (const LayerRow& row : parts.layers) {
    macs += row.forward_macs;
    backward += row.backward_flops;
    again += row.recompute_flops;
  }
  CHECK_EQ(macs, parts.compute.forward_macs);
  CHECK_EQ(backward, parts.compute.backward_flops);
  CHECK_EQ(again, parts.compute.recompute_flops);
}

TEST_CASE("a spec without its version is refused") {
  const std::string layers = "input: {shape: [4]}\nlayers:\n  - Linear(4, 4)\n";
  CHECK_EQ(testing::error_of(layers),
           "error: a model spec needs gpuplan:, the version of its format\n"
           "  --> test.yaml:1:1\n"
           "  1 | input: {shape: [4]}\n"
           "    | ^ write gpuplan: 1 before it\n");
  CHECK_EQ(testing::error_of("gpuplan: 1\n" + layers), "");
}

TEST_CASE("training without a loss is said, and no loss of an inference") {
  const std::string spec = "gpuplan: 1\ninput: {shape: [4]}\nlayers:\n  - Linear(4, 4)\n";
  RunConfig run = two_samples();
  const auto plan_text = [&](const std::string& text) { return plan(testing::read_spec(text), make_catalog(), run); };
  const std::string words = "the spec has no \"loss:\": CrossEntropyLoss() of the model's output is assumed";
  CHECK(warns(plan_text(spec), words));
  for (const char* loss : {"loss: CrossEntropyLoss()\n", "loss: mean\n", "loss: [loss: CrossEntropyLoss()]\n"})
    CHECK_FALSE(warns(plan_text(spec + loss), words));
  run.mode = Mode::infer;
  CHECK_FALSE(warns(plan_text(spec), words));
}
