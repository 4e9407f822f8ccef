// `plan --eval-batch`. Steps of transformers' Trainer, accelerate and loops of one's own are compared with recordings
// (tests/recorded/evaluation).
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/json_schema.h"
#include "tools/answers/evaluation.h"

namespace gpuplan {
namespace {

RunOptions run_of(const std::string& model) {
  RunOptions run;
  run.model = model;
  run.batch = "2";
  run.optimizer = "adamw";
  run.gpu = "h200";
  return run;
}

std::string why_not(const EvaluationOptions& evaluation, const RunOptions& run = run_of("zoo:mlp")) {
  try {
    if (asks_for_evaluation(evaluation)) (void)with_evaluation(run, evaluation);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("an evaluation lies between steps of training that take what they took") {
  const LengthsReport r = with_evaluation(run_of("zoo:gpt2"), {"2", "4", "", false});
  REQUIRE(r.steps.size() == 3 + 4 + 2);
  CHECK(r.batches[3].evaluates);
  CHECK_FALSE(r.batches[7].evaluates);
  CHECK(r.steps[8].peak.allocated_bytes == r.steps[2].peak.allocated_bytes);
  CHECK(r.steps[8].live.allocated_bytes == r.steps[2].live.allocated_bytes);
  CHECK(r.steps[4].peak.allocated_bytes < r.steps[2].peak.allocated_bytes);  // nothing is saved for backward
  CHECK(r.steps[8].peak.reserved_bytes == r.reserved_bytes());               // what the evaluation reserved stays
  const nlohmann::json schema = nlohmann::json::parse(lengths_json_schema());
  tests::check_against(schema, nlohmann::json::parse(lengths_json(r, "0.1.0")), "evaluation");
}

// transformers' Trainer holds n batches' logits in one tensor and the last ones beside them, and for a moment those of
// n - 1 batches as well: EvalLoopContainer.add() concatenates. GPT-2 has 2 * 1024 rows of 50,257 fp32 numbers.
TEST_CASE("logits that Trainer keeps grow by their size with each batch, until they go to the host") {
  RunOptions run = run_of("zoo:gpt2");
  run.like = "trainer";
  constexpr std::int64_t kLogits = std::int64_t{2} * 1024 * 50257 * 4;
  const LengthsReport kept = with_evaluation(run, {"2", "4", "", true});
  const auto grows = [](const LengthsReport& r, std::size_t step) {
    return r.steps[step].live.requested_bytes - r.steps[step - 1].live.requested_bytes;
  };
  // Beside them 2 * 1024 labels of 8 bytes, and one loss a sample.
  CHECK(grows(kept, 5) == kLogits + 2 * 1024 * 8 + 2 * 4);
  CHECK(grows(kept, 6) == grows(kept, 5));
  const LengthsReport moved = with_evaluation(run, {"2", "4", "2", true});
  CHECK(moved.steps[4].live.requested_bytes == moved.steps[6].live.requested_bytes);
  CHECK(moved.steps[4].live.requested_bytes < kept.steps[4].live.requested_bytes - 2 * kLogits);
}

TEST_CASE("gradients live through an evaluation of a loop of one's own, and not through Trainer's") {
  RunOptions run = run_of("zoo:mlp");
  const LengthsReport own = with_evaluation(run, {"2", "1", "", false});
  CHECK(own.assumptions.size() == 2);
  run.like = "trainer";
  CHECK(with_evaluation(run, {"2", "1", "", false}).assumptions.size() == 1);
}

TEST_CASE("flags that an evaluation is not planned with are refused") {
  CHECK(why_not({"", "3", "", false}) == "--eval-batches is for --eval-batch");
  CHECK(why_not({"", "", "", true}) == "--eval-logits is for --eval-batch");
  CHECK(why_not({"", "", "2", false}) == "--eval-accumulation-steps is for --eval-batch");
  CHECK(why_not({"4", "", "2", false}) == "--eval-accumulation-steps says when logits go to the host");
  CHECK_FALSE(why_not({"0", "", "", false}).empty());
  CHECK_FALSE(why_not({"4", "x", "", false}).empty());
  RunOptions run = run_of("zoo:mlp");
  run.mode = "infer";
  run.optimizer.clear();
  CHECK(why_not({"4", "", "", false}, run) ==
        "--mode infer with --eval-batch: an evaluation is planned between steps of training");
  run = run_of("zoo:mlp");
  run.like = "lightning";
  CHECK(why_not({"4", "", "", false}, run) ==
        "--like lightning with --eval-batch: what its loop of validation holds was not recorded");
}

}  // namespace gpuplan
