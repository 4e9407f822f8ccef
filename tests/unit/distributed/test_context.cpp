// Context parallelism: what a rank has, sends and is refused. Bytes of whole steps are recorded (tests/parallel); sizes
// here are counted by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/distributed/alike_ranks.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

// 6 blocks, 12 heads of 64 and 4 for keys and values, as one of `ranks` has it of 1,024 tokens.
Model llama_of(std::int64_t ranks) {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
  options.seq = std::to_string(1024 / ranks);
  return load_model(options);
}

RunConfig run_of(std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.precision = DType::bf16;
  return run;
}

Strategy shared_context(std::int64_t gpus, std::int64_t context, std::int64_t rank = 0) {
  Strategy strategy;
  strategy.data = DataParallel::fsdp;
  strategy.gpus = gpus;
  strategy.context = context;
  strategy.rank = rank;
  return strategy;
}

Report plan_of(const Strategy& strategy, std::int64_t batch, const RunConfig& run) {
  RunConfig whole = run;
  whole.batch = batch;
  return report_of(make_plan(llama_of(strategy.context), make_catalog(), whole, nullptr, strategy));
}

const CommunicationRow* row_of(const Report& report, std::string_view what) {
  const auto& rows = report.rank->communication;
  const auto found = std::ranges::find(rows, what, &CommunicationRow::what);
  return found == rows.end() ? nullptr : &*found;
}

TEST_CASE("ranks of a context have the same samples, and gather each other's keys and values") {
  const Report report = plan_of(shared_context(8, 4), 6, run_of(6));
  CHECK_EQ(report.run.batch, 3);  // of two groups of ranks
  CHECK_EQ(report.rank->sample_tokens, 1024);
  // 6 layers; keys and values of 3 samples, 1,024 tokens, 4 heads of 64, 2 bytes each.
  constexpr std::int64_t kBoth = 6LL * 2 * 3 * 1024 * 4 * 64 * 2;
  REQUIRE(row_of(report, "keys and values, forward") != nullptr);
  CHECK_EQ(row_of(report, "keys and values, forward")->bytes, kBoth);
  CHECK_EQ(row_of(report, "keys and values, backward")->bytes, kBoth);
  // Gradients of a rank's quarter go around the ring of four, in fp32.
  CHECK_EQ(row_of(report, "gradients of keys and values")->bytes, 2 * kBoth);
  CHECK_EQ(row_of(report, "gradients of keys and values")->collective, Collective::send);
  CHECK_EQ(row_of(report, "results of lm_head"), nullptr);
  CHECK_EQ(row_of(report, "tokens to experts, backward"), nullptr);
}

TEST_CASE("products of attention are those of what a rank attends to") {
  // The rank's own 256 tokens, then three turns of half as many scores, whichever half it is.
  constexpr std::int64_t kOwn = 2LL * 6 * 12 * 256 * 256 * 64, kOthers = 3 * kOwn / 2;
  RunConfig few = run_of(2);
  few.batch = 1;
  const Report alone = report_of(make_plan(llama_of(4), make_catalog(), few, nullptr));
  for (const std::int64_t rank : {0, 1, 3})
    CHECK_EQ(plan_of(shared_context(4, 4, rank), 1, few).compute.forward_macs, alone.compute.forward_macs + kOthers);
}

TEST_CASE("ranks of a context differ from each other") {
  const Plan plan = make_plan(llama_of(4), make_catalog(), run_of(2), nullptr, shared_context(8, 4));
  const std::vector<AlikeRanks> alike = alike_ranks(plan.step.graph, plan.step.run, shared_context(8, 4));
  CHECK_EQ(alike, std::vector<AlikeRanks>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE("a context is judged by the ranks that need the most and take the longest") {
  const auto ranks = [](std::int64_t context) {
    std::vector<std::int64_t> of;
    for (const Strategy& s : ranks_of_context(shared_context(8, context))) of.push_back(s.rank);
    return of;
  };
  CHECK_EQ(ranks(1), std::vector<std::int64_t>{});
  CHECK_EQ(ranks(2), std::vector<std::int64_t>{1});
  CHECK_EQ(ranks(8), std::vector<std::int64_t>{1, 7});
}

TEST_CASE("ranks that have tokens in a row are told of") {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
  options.seq = "125";  // of 1,000 tokens
  const auto report = [&](std::int64_t rank) {
    return report_of(make_plan(load_model(options), make_catalog(), run_of(1), nullptr, shared_context(8, 8, rank)));
  };
  const auto in_a_row = [](const std::string& w) { return w.find("--seq 1008 is balanced") != w.npos; };
  CHECK(std::ranges::any_of(report(0).warnings, in_a_row));
  // The first rank attends to its own 125 tokens, the last one to eight times as many.
  constexpr std::int64_t kTurn = 2LL * 6 * 12 * 125 * 125 * 64;
  CHECK_EQ(report(7).compute.forward_macs - report(0).compute.forward_macs, 7 * kTurn);
}

TEST_CASE("what PyTorch, Accelerate and transformers refuse is refused") {
  const auto refused = [](const Strategy& strategy, const RunConfig& run, const char* words) {
    try {
      (void)plan_of(strategy, run.batch, run);
    } catch (const Error& error) {
      return error.message().find(words) != std::string::npos;
    }
    return false;
  };
  const Strategy shared = shared_context(4, 4);
  CHECK(refused(shared, run_of(3), "cannot be divided") == false);  // one group has all samples
  CHECK(refused(shared_context(8, 4), run_of(3), "cannot be divided equally among 2 groups"));
  RunConfig run = run_of(1);
  run.attention = Attention::eager;
  CHECK(refused(shared, run, "only with SDPA attention"));
  run.attention = Attention::math;
  CHECK(refused(shared, run, "CP only supports flash attention"));
  Strategy ddp = shared;
  ddp.data = DataParallel::ddp;
  CHECK(refused(ddp, run_of(4), "planned with FSDP2"));
  run = run_of(1);
  run.mode = Mode::infer;
  CHECK(refused(shared, run, "inference on several GPUs"));
  Strategy whole = shared;
  whole.data = DataParallel::none;
  CHECK_FALSE(refused(whole, run, ""));
  run.labels = true;
  CHECK(refused(whole, run, "one forward that returns logits"));
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/gemma3.json";
  CHECK_THROWS_WITH_AS(context_variable(load_model(options), 4), doctest::Contains("sliding_attention"), Error);
  CHECK_THROWS_WITH_AS(context_variable(llama_of(1), 3), doctest::Contains("does not divide the 1024 tokens"), Error);
}

}  // namespace
}  // namespace gpuplan
