// gpuplan fit --may: every combination that the run allows is planned, those that fit first.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "estimator/base/error.h"
#include "tools/answers/combinations.h"

namespace gpuplan {
namespace {

CombinationQuestion gpt2(std::vector<std::string> words) {
  CombinationQuestion question{.run = {}, .words = std::move(words)};
  question.run.model = std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface/gpt2.json";
  question.run.optimizer = "adamw";
  question.run.gpu = "t4";
  return question;
}

std::set<std::string> flags_of(const CombinationQuestion& question) {
  std::set<std::string> flags;
  for (const SweepRow& row : combinations(question)) flags.insert(row.values.front());
  return flags;
}

std::string error_of(const CombinationQuestion& question) {
  try {
    (void)combinations(question);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("changes are combined, but for weights of 4 bits without adapters") {
  CHECK(flags_of(gpt2({"nf4", "lora"})) ==
        std::set<std::string>{"as asked", "--lora r=16", "--lora r=16 --weights nf4:double"});
  CHECK(flags_of(gpt2({"8bit", "checkpoint"})) == std::set<std::string>{"as asked", "--opt adamw8bit",
                                                                        "--checkpoint block",
                                                                        "--checkpoint block --opt adamw8bit"});
}

TEST_CASE("what the run has already, or a library refuses beside another change, is in no combination") {
  CombinationQuestion question = gpt2({"amp", "8bit", "offload"});
  question.run.precision = "bf16";
  CHECK(flags_of(question) == std::set<std::string>{"as asked", "--opt adamw8bit", "--offload optimizer"});
}

TEST_CASE("those that fit stand first, the fastest before the others, and of micro-batches are as few as fit") {
  CombinationQuestion question = gpt2({"checkpoint", "micro-batches"});
  question.run.batch = "64";
  const std::vector<SweepRow> rows = combinations(question);
  REQUIRE(rows.size() == 2);
  for (const SweepRow& row : rows) CHECK(row.figures->fits);
  CHECK(*rows[0].figures->samples_per_second >= *rows[1].figures->samples_per_second);
  CHECK(rows[0].values.front().find("--micro-batches") != std::string::npos);
  question.words = {"checkpoint"};
  const std::vector<SweepRow> whole = combinations(question);
  CHECK_FALSE(whole.front().figures->fits);
  CHECK(whole[0].figures->device_bytes <= whole[1].figures->device_bytes);
}

TEST_CASE("--may refuses a word that is none, and a run without a GPU") {
  CHECK(error_of(gpt2({"checkpoints"})).ends_with("not \"checkpoints\" \u2014 did you mean \"checkpoint\"?"));
  CombinationQuestion question = gpt2({"amp"});
  question.run.gpu.clear();
  CHECK(error_of(question) == "--may needs one GPU");
}

}  // namespace gpuplan
