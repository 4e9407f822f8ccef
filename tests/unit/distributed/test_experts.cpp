// Expert parallelism as transformers does it: what a rank has and sends. Bytes of whole steps are recorded
// (tests/parallel); sizes here are counted by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {
namespace {

Strategy shared_experts(std::int64_t gpus, std::int64_t experts) {
  Strategy strategy;
  strategy.data = DataParallel::fsdp;
  strategy.gpus = gpus;
  strategy.experts = experts;
  strategy.wraps_ends = true;
  return strategy;
}

RunConfig run_of(std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.precision = DType::bf16;
  run.optimizer.kind = OptimizerKind::adamw;
  return run;
}

const CommunicationRow* row_of(const Report& report, std::string_view what) {
  const auto& rows = report.rank->communication;
  const auto found = std::ranges::find(rows, what, &CommunicationRow::what);
  return found == rows.end() ? nullptr : &*found;
}

TEST_CASE("a rank has a part of the experts and sends each pair to its expert and back") {
  // Mixtral 8x7B: 32 layers of 8 experts, each 3 x 4096 x 14336; 2 experts a token of 4,096 numbers.
  const Report report =
      report_of(make_plan(zoo_model("mixtral_8x7b"), make_catalog(), run_of(8), nullptr, shared_experts(8, 8)));
  constexpr std::int64_t kAll = 46'702'792'704, kExperts = 32LL * 8 * 3 * 4096 * 14336;
  CHECK_EQ(report.model.parameters, kAll - kExperts / 8 * 7);
  // Whole experts are on each of eight ranks, and an eighth of the rest; the embedding and norms are multiples of 8.
  CHECK_EQ(report.rank->states.parameters, 2 * (kExperts / 8 + (kAll - kExperts) / 8));
  const std::int64_t bytes = 2 * zoo_model("mixtral_8x7b").inputs.front().shape.back() * 4096 * 2;
  const CommunicationRow* const forward = row_of(report, "tokens to experts, forward");
  REQUIRE(forward != nullptr);
  CHECK_EQ(forward->collective, Collective::all_to_all);
  CHECK_EQ(forward->bytes, 32 * (2 * bytes + 8 * 8));  // and how many pairs go to each of 8 experts
  CHECK_EQ(row_of(report, "tokens to experts, backward")->bytes, 32 * 2 * bytes);
  CHECK_EQ(row_of(report, "experts, forward"), nullptr);  // no other rank has them
}

TEST_CASE("ranks that have the same experts share them") {
  const Strategy strategy = shared_experts(16, 4);
  CHECK_EQ(strategy.group(false).ranks, 16);
  CHECK_EQ(strategy.group(true).ranks, 4);
  Strategy last = strategy;
  last.rank = 13;
  CHECK_EQ(last.group(true).rank, 3);  // 12 to 15
  const Report report = report_of(make_plan(zoo_model("mixtral_8x7b"), make_catalog(), run_of(16), nullptr, strategy));
  // Two experts a rank, over four ranks: padded to four.
  const CommunicationRow* const gathers = row_of(report, "experts, forward");
  REQUIRE(gathers != nullptr);
  CHECK_EQ(gathers->bytes, 32LL * 4 * 3 * 4096 * 14336 * 2);
  CHECK(std::ranges::any_of(report.warnings, [](const std::string& w) { return w.find("pads them to 4") != w.npos; }));
}

TEST_CASE("more tokens than a rank sends need more memory") {
  Strategy busy = shared_experts(8, 8);
  busy.expert_load = 2;
  const auto peak = [](const Strategy& strategy) {
    return report_of(make_plan(zoo_model("mixtral_8x7b"), make_catalog(), run_of(8), nullptr, strategy))
        .peak.reading.allocated_bytes;
  };
  CHECK_GT(peak(busy), peak(shared_experts(8, 8)));
}

TEST_CASE("what transformers and PyTorch refuse, or what was not recorded, is refused") {
  const auto refused = [](const RunConfig& run, const Strategy& strategy, const char* model = "mixtral_8x7b") {
    CHECK_THROWS_AS((void)make_plan(zoo_model(model), make_catalog(), run, nullptr, strategy), Error);
  };
  refused(run_of(8), shared_experts(8, 8), "llama3_8b");
  refused(run_of(16), shared_experts(16, 16));  // of 8 experts
  RunConfig clipped = run_of(8);
  clipped.clip_grad_norm = true;
  refused(clipped, shared_experts(8, 8));
  RunConfig older = run_of(8);
  older.pytorch = 208;
  refused(older, shared_experts(8, 8));
  SeveralGpusOptions options;
  options.gpus = "8";
  options.experts = "4";
  CHECK_THROWS_AS((void)strategy_of(options), Error);  // DDP
  options.zero = "fsdp";
  CHECK_EQ(strategy_of(options)->experts, 4);
  options.experts = "3";
  CHECK_THROWS_AS((void)strategy_of(options), Error);
  options.experts = "4";
  options.tensor = "8";
  CHECK_THROWS_AS((void)strategy_of(options), Error);
  options.tensor = "2,sequence";
  CHECK_THROWS_AS((void)strategy_of(options), Error);
  // 4 shards x 2 ranks that share layers = 2 that have the same experts x 4.
  options.tensor = "2";
  CHECK_EQ(strategy_of(options)->group(false).ranks, 4);
  CHECK_EQ(strategy_of(options)->group(true).ranks, 2);
}

}  // namespace
}  // namespace gpuplan
