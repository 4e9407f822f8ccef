// What is suggested where a step does not fit: single changes, pairs, and nothing that changes nothing.
#include "estimator/search/suggestions.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "estimator/report/suggestions_text.h"
#include "estimator/search/best_pair.h"
#include "estimator/search/suggestions_under.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

RunConfig adam(std::int64_t batch) {
  RunConfig run;
  run.optimizer.kind = OptimizerKind::adam;
  run.batch = batch;
  return run;
}

Gpu with_memory(std::int64_t bytes) {
  Gpu gpu = *gpu_called("a100-40gb");
  gpu.cuda_total_bytes = bytes;
  return gpu;
}

std::vector<Suggestion> suggestions_of(const Model& model, const RunConfig& run, const Gpu& gpu) {
  return suggest(model, make_catalog(), plan(model, make_catalog(), run, &gpu), gpu);
}

bool names(const std::vector<Suggestion>& suggestions, std::string_view flags) {
  return std::ranges::any_of(suggestions,
                             [&](const Suggestion& w) { return w.flags.find(flags) != std::string::npos; });
}

// A step that takes 100, and 80 a sample of a micro-batch: half of these under autocast, a quarter with checkpoints.
std::optional<std::int64_t> made_up(const RunConfig& run) {
  std::int64_t activations = 80 * run.batch / run.micro_batches;
  if (run.autocast) activations /= 2;
  if (run.checkpoint.kind == CheckpointConfig::Kind::block) activations /= 4;
  return 100 + activations;
}

std::optional<ChangedPair> pair_under(std::int64_t most, std::int64_t batch = 8) {
  return best_pair(adam(batch), *gpu_called("a100-40gb"), 1, most, made_up);
}

}  // namespace

TEST_CASE("the best pair reaches least into what is computed") {
  // Eight samples take 740: 260 with checkpoints, 420 under autocast, 180 with both.
  CHECK_EQ(pair_under(259)->flags, "--checkpoint block --micro-batches 2");  // the same numbers: 100 + 640 / 8
  CHECK_EQ(pair_under(259)->amount, 180);
  CHECK_EQ(pair_under(125)->flags, "--checkpoint block --micro-batches 8");
  // Seven samples are no two micro-batches: 100 + 560 / 8.
  CHECK_EQ(pair_under(200, 7)->flags, "--amp bf16 --checkpoint block");
  CHECK_EQ(pair_under(200, 7)->amount, 170);
  // The pair above takes too much for 165. With checkpoints three samples take 100 + 3 * 20, four 180.
  CHECK_EQ(pair_under(165, 7)->flags, "--checkpoint block --batch 3");
  CHECK_EQ(pair_under(165, 7)->amount, 160);
}

TEST_CASE("where no pair is enough, the one that takes least is told") {
  // One sample of seven with checkpoints takes 100 + 80 / 4.
  const std::optional<ChangedPair> pair = pair_under(50, 7);
  REQUIRE(pair);
  CHECK_EQ(pair->amount, 120);
}

TEST_CASE("two changes of which one does nothing are no pair") {
  // The optimizer's changes never help here, and precision is none of made_up's.
  for (const std::int64_t most : {700, 400, 200, 120})
    if (const auto pair = pair_under(most))
      for (const char* idle : {"--opt sgd", "--opt-impl", "--precision"})
        CHECK(pair->flags.find(idle) == std::string::npos);
  const AmountOfRun fixed = [](const RunConfig&) { return std::optional<std::int64_t>(10); };
  CHECK_FALSE(best_pair(adam(8), *gpu_called("a100-40gb"), 1, 5, fixed));
}

TEST_CASE("fewer bits and a smaller batch fit an inference together") {
  // A product of 4096 x 4096 in bf16 takes 32 MiB, 8 MiB and its scales in int4; a sample of 4096 tokens takes 32 MiB
  // in and 32 MiB out.
  const Model model = testing::read_spec(
      "gpuplan: 1\ninput: {shape: [4096, 4096]}\nblocks:\n  Part:\n    layers:\n"
      "      - Linear(4096, 4096, bias=False)\nlayers:\n  - {name: parts, block: Part, repeat: 8}\n");
  RunConfig run;
  run.mode = Mode::infer;
  run.precision = DType::bf16;
  run.batch = 4;
  run.context_bytes = 0;
  const auto needs = [&](WeightFormat weights, std::int64_t batch) {
    RunConfig changed = run;
    changed.weights = weights;
    changed.batch = batch;
    return plan(model, make_catalog(), changed).peak.device_bytes;
  };
  const std::int64_t enough = needs(WeightFormat::int4, 1);
  REQUIRE_LT(enough, std::min(needs(WeightFormat::int4, 4), needs(WeightFormat::as_computed, 1)));
  const std::vector<Suggestion> suggestions = suggestions_of(model, run, with_memory(enough));
  REQUIRE_EQ(suggestions.size(), 1);
  CHECK(suggestions.front().pair);
  CHECK_EQ(suggestions.front().flags, "--weights int4 --batch 1");
  CHECK_EQ(suggestions.front().device_bytes, enough);
  const Ceiling ceiling{
      [&](const RunConfig& other) { return plan(model, make_catalog(), other, nullptr).peak.device_bytes; }, enough};
  const std::vector<SuggestionUnder> under = suggestions_under(model, run, nullptr, ceiling);
  REQUIRE_EQ(under.size(), 1);
  CHECK_EQ(under.front().flags, suggestions.front().flags);
  CHECK(suggestions_text(suggestions, enough, {})
            .starts_with("\n  no single change makes it fit; these two together do\n"));
  CHECK(suggestions_text(suggestions, enough - 1, {})
            .starts_with("\n  no change or pair of changes makes it fit; the closest\n"));
}

TEST_CASE("a change that changes nothing is not suggested") {
  const std::string written =
      "gpuplan: 1\ninput: {shape: [256]}\nblocks:\n  Part:\n    layers:\n      - Linear(256, 256)\n      - ReLU()\n"
      "layers:\n  - {name: parts, block: Part, repeat: 4, checkpoint: true}\nloss: mean\n";
  const Model model = testing::read_spec(written);
  // On in the model, and by the flag.
  for (const auto kind : {CheckpointConfig::Kind::as_written, CheckpointConfig::Kind::block}) {
    RunConfig run = adam(64);
    run.checkpoint.kind = kind;
    const std::vector<Suggestion> suggestions = suggestions_of(model, run, with_memory(1 << 20));
    CHECK_FALSE(names(suggestions, "--checkpoint block"));
  }
  // A product in bf16 whose weight has 4 bits, of one sample: nothing takes less.
  RunConfig run;
  run.mode = Mode::infer;
  run.precision = DType::bf16;
  run.weights = WeightFormat::int4;
  const Model one = testing::read_spec("gpuplan: 1\ninput: {shape: [256]}\nlayers:\n  - Linear(256, 256)\n");
  CHECK(suggestions_of(one, run, with_memory(1 << 20)).empty());
}

TEST_CASE("a batch that only runs is told apart from those that fit") {
  const std::vector<Suggestion> suggestions = {{.flags = "--batch 3", .device_bytes = 2 << 20},
                                               {.flags = "--batch 4", .device_bytes = 9 << 20, .retries = 2}};
  CHECK_EQ(suggestions_text(suggestions, 4 << 20, {}),
           "\n  any one of these changes makes it fit\n    --batch 3  2.00 MiB\n\n"
           "  does not fit, but runs after the allocator releases its cache\n    --batch 4  9.00 MiB  2 retries\n");
}
