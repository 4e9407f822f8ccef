// Limits against figures: what passes, warns and fails, with and without a base.
#include <doctest/doctest.h>

#include "estimator/budget/judge.h"
#include "estimator/budget/read_budget.h"
#include "tests/support/report_example.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Check check_of(const std::string& body) {
  const std::string text = "gpuplan: 1\nchecks:\n  - model: m.yaml\n" + body;
  Budget budget =
      read_budget(std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = text}), {{"batch", "batch"}});
  static std::vector<std::shared_ptr<const Source>> alive;  // what marks point into
  alive.push_back(budget.source);
  return budget.checks[0];
}

Measured peak(std::int64_t bytes) {
  Measured measured;
  measured.figures[Figure::peak] = bytes;
  measured.figures[Figure::params] = 25'000'000;
  return measured;
}

State judged(const Check& check, std::int64_t head, std::optional<std::int64_t> base = std::nullopt, Day today = 0) {
  const std::optional<Measured> before = base ? std::optional(peak(*base)) : std::nullopt;
  return state_of(check, judge(check, peak(head), before ? &*before : nullptr, {}), today);
}

}  // namespace

TEST_CASE("judge: at the limit is within it") {
  const Check check = check_of("    budget: {peak: {max: 8 GiB, warn: 4 GiB, min: 1 GiB}}\n");
  CHECK_EQ(judged(check, 8 * kGiB), State::warn);
  CHECK_EQ(judged(check, 8 * kGiB + 1), State::fail);
  CHECK_EQ(judged(check, 4 * kGiB), State::ok);
  CHECK_EQ(judged(check, 4 * kGiB + 1), State::warn);
  CHECK_EQ(judged(check, kGiB), State::ok);
  CHECK_EQ(judged(check, kGiB - 1), State::fail);
}

TEST_CASE("judge: growth fails when it is above the percentage and above the bytes") {
  const Check check = check_of("    growth: {peak: {fail: {percent: 5, bytes: 256 MiB}, warn: {percent: 1}}}\n");
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  CHECK_EQ(judged(check, 9 * kGiB), State::ok);  // without a base nothing grows
  CHECK_EQ(judged(check, 11 * kGiB, 10 * kGiB), State::fail);
  CHECK_EQ(judged(check, kGiB + 200 * kMiB, kGiB), State::warn);  // 20 %, but not 256 MiB
  CHECK_EQ(judged(check, kGiB + 256 * kMiB, kGiB), State::warn);  // exactly as much as is allowed
  CHECK_EQ(judged(check, kGiB + 256 * kMiB + 1, kGiB), State::fail);
  CHECK_EQ(judged(check, 10 * kGiB + 300 * kMiB, 10 * kGiB), State::warn);  // 256 MiB, but 2.9 %
  CHECK_EQ(judged(check, 10 * kGiB + 50 * kMiB, 10 * kGiB), State::ok);     // 0.5 %
  CHECK_EQ(judged(check, 9 * kGiB, 10 * kGiB), State::ok);
  CHECK_EQ(judged(check, 300 * kMiB, 0), State::fail);  // of nothing every percentage is exceeded
}

TEST_CASE("judge: what the base breaks as much is inherited") {
  const std::string budget = "    budget: {peak: 8 GiB}\n";
  const Check warns = check_of(budget + "    inherited: warn\n"), fails = check_of(budget);
  const Check silent = check_of(budget + "    inherited: off\n");
  CHECK_EQ(judged(warns, 9 * kGiB, 9 * kGiB), State::warn);
  CHECK_EQ(judged(warns, 9 * kGiB, 10 * kGiB), State::warn);
  CHECK_EQ(judged(warns, 9 * kGiB + 1, 9 * kGiB), State::fail);  // grown
  CHECK_EQ(judged(warns, 9 * kGiB, 8 * kGiB), State::fail);      // the base met it
  CHECK_EQ(judged(warns, 9 * kGiB), State::fail);
  CHECK_EQ(judged(fails, 9 * kGiB, 9 * kGiB), State::fail);
  CHECK_EQ(judged(silent, 9 * kGiB, 9 * kGiB), State::ok);
}

TEST_CASE("judge: levels, and mutes that end") {
  const Check warned = check_of("    budget: {peak: {max: 8 GiB, level: warn}}\n");
  CHECK_EQ(judged(warned, 9 * kGiB), State::warn);
  const Check off = check_of("    budget: {peak: {max: 8 GiB, level: off}}\n");
  CHECK_EQ(judged(off, 9 * kGiB), State::ok);
  const Check muted = check_of("    budget: {peak: 8 GiB}\n    skip_until: 2026-12-31\n    reason: moving\n");
  CHECK_EQ(judged(muted, 9 * kGiB, {}, *day_of("2026-12-31")), State::muted);
  CHECK_EQ(judged(muted, 9 * kGiB, {}, *day_of("2027-01-01")), State::fail);
  CHECK_EQ(judged(muted, 7 * kGiB, {}, *day_of("2026-12-31")), State::ok);
}

TEST_CASE("judge: a GPU has to hold the step and the margin") {
  const Check check = check_of("    margin: 5%\n    budget: {fits: t4}\n");
  const auto on = [&](std::int64_t device, std::optional<std::int64_t> base = {}) {
    const FitsFigures fits{.title = "T4", .device_bytes = device, .usable_bytes = 1000, .mark = {}, .base_bytes = base};
    return state_of(check, judge(check, peak(1), nullptr, {fits}), 0);
  };
  CHECK_EQ(on(950), State::ok);
  CHECK_EQ(on(951), State::fail);
}

TEST_CASE("judge: modules are each limited, and a pattern that matches none is an error") {
  const Report report = tests::example_report();
  // stage1: the saved bytes of its layers, 0 + 131,200 + 131,072.
  const std::vector<ModuleFigures> stage = matching_modules(report, "stage1");
  REQUIRE_EQ(stage.size(), 1);
  CHECK_EQ(*stage[0].figures[Figure::saved], 262'272);
  CHECK_EQ(*stage[0].figures[Figure::params], 464);
  // 2 * 884,736 forward and as many backward.
  CHECK_EQ(*stage[0].figures[Figure::step_flop], 4 * 884'736);
  const std::vector<ModuleFigures> within = matching_modules(report, "stage1.*");
  REQUIRE_EQ(within.size(), 3);
  CHECK_EQ(within[1].path, "stage1.bn");
  CHECK_EQ(matching_modules(report, "**").size(), 5);

  const Check check = check_of("    budget: {modules: {\"stage1.*\": {saved: 131100 B}}}\n");
  const std::vector<Assertion> judged = judge(check, measure(report, check), nullptr, {});
  REQUIRE_EQ(judged.size(), 3);
  CHECK_EQ(judged[0].state, State::ok);
  CHECK_EQ(judged[1].state, State::fail);
  CHECK_EQ(judged[1].subject, "stage1.bn");
  CHECK_EQ(judged[2].state, State::ok);
  const Check none = check_of("    budget: {modules: {\"stage9.*\": {saved: 1 GiB}}}\n");
  CHECK_THROWS_WITH_AS(judge(none, measure(report, none), nullptr, {}), "no module of m.yaml matches \"stage9.*\"",
                       Error);
}

TEST_CASE("judge: a module that is gone does not take its floor with it") {
  const Report report = tests::example_report();
  Report without = report;
  std::erase_if(without.layers, [](const LayerRow& row) { return row.name == "stage1.bn"; });
  const Check check = check_of("    budget: {modules: {\"stage1.*\": {params: {min: 1}}}}\n");
  const Measured base = measure(report, check);
  const std::vector<Assertion> judged = judge(check, measure(without, check), &base, {});
  REQUIRE_EQ(judged.size(), 3);  // the convolution, the ReLU without a parameter, and the norm that was there
  CHECK_EQ(judged[0].state, State::ok);
  CHECK_EQ(judged[2].subject, "stage1.bn");
  CHECK_EQ(judged[2].state, State::fail);
}

TEST_CASE("judge: a figure that is limited has to be known") {
  const Check check = check_of("    budget: {step_time: 100 ms}\n");
  CHECK_THROWS_WITH_AS(judge(check, peak(1), nullptr, {}), "the step_time of m is not known", Error);
}
