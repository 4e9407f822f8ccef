// gpuplan fit --solve: the answer is the largest value that fits, asked of the plans on both sides of it.
#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "tools/answers/solve.h"
#include "tools/answers/sweep_points.h"

namespace gpuplan {
namespace {

SolveQuestion gpt2(const std::string& name, const std::string& gpu = "t4") {
  SolveQuestion question{.run = {}, .name = name, .gpus = {gpu}, .most = ""};
  question.run.model = std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface/gpt2.json";
  question.run.optimizer = "adam";
  return question;
}

bool fits(RunOptions run, const std::string& flag, std::int64_t value, const std::string& gpu) {
  SweepPoints points(std::move(run), {{"gpu", {gpu}}, {flag, {std::to_string(value)}}});
  const SweepRow row = points.plan_point(0);
  REQUIRE_MESSAGE(row.figures, row.error);
  return row.figures->fits;
}

std::string error_of(const SolveQuestion& question) {
  try {
    (void)solve(question);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("the value that is found fits, and the next one does not") {
  SolveQuestion question = gpt2("seq");
  question.gpus = {"4 GiB"};
  question.run.batch = "2";
  const SolvedRow found = solve(question).front();
  REQUIRE(found.fits());
  const std::int64_t seq = std::stoll(found.row.values[1]);
  CHECK(seq > 100);
  CHECK(found.flags == "--seq " + std::to_string(seq));
  CHECK_FALSE(found.models_most);
  CHECK(fits(question.run, "seq", seq, "4 GiB"));
  CHECK_FALSE(fits(question.run, "seq", seq + 1, "4 GiB"));
}

TEST_CASE("a length that the model does not take is told from one that does not fit") {
  const SolvedRow found = solve(gpt2("seq")).front();
  CHECK(found.row.values[1] == "1024");
  CHECK(found.models_most);
}

TEST_CASE("of micro-batches the fewest are found") {
  SolveQuestion question = gpt2("micro-batches");
  question.run.batch = "64";
  const SolvedRow found = solve(question).front();
  REQUIRE(found.fits());
  const std::int64_t parts = std::stoll(found.row.values[1]);
  CHECK(parts > 1);
  CHECK_FALSE(fits(question.run, "micro-batches", parts / 2, "t4"));
}

TEST_CASE("the rank of --lora is a number to be found, too") {
  SolveQuestion question = gpt2("rank");
  question.run.lora = "r=8,targets=c_attn";
  question.most = "64";
  const SolvedRow found = solve(question).front();
  CHECK(found.row.values[1] == "64");
  CHECK(found.flags == "--lora r=64,alpha=8,targets=c_attn");
}

TEST_CASE("where nothing fits the least is shown") {
  const SolvedRow found = solve(gpt2("batch", "1 GiB")).front();
  CHECK_FALSE(found.fits());
  CHECK(found.row.values[1] == "1");
}

TEST_CASE("--solve refuses what is no number of a run, or is given already") {
  CHECK(error_of(gpt2("sequence")).starts_with("--solve expects seq, batch"));
  CHECK(error_of(gpt2("rank")) == "--solve rank is the rank of --lora");
  SolveQuestion given = gpt2("seq");
  given.run.seq = "10";
  CHECK(error_of(given) == "--solve seq finds what --seq 10 says already: give only one of them");
}

}  // namespace gpuplan
