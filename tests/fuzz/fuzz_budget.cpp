// libFuzzer target: any bytes are either a budget or an Error; what is judged by one can be written in every format,
// and a budget whose limits were raised is one that they meet.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "estimator/budget/read_budget.h"
#include "estimator/report/check_report.h"
#include "estimator/report/read_check.h"
#include "tests/fuzz/fuzz_read.h"
#include "tests/support/report_example.h"
#include "tools/check/settings.h"
#include "tools/check/update.h"

namespace {

using namespace gpuplan;

constexpr std::size_t kFewChecks = 50;

CheckReport report_of(const Budget& budget, const Report& plan) {
  CheckReport report;
  report.file = "gpuplan.yaml";
  report.base_rule = "the commit named";
  report.today = 20'000;
  for (const Check& check : budget.checks) {
    CheckResult& result = report.results.emplace_back();
    result.check = check;
    result.measured = measure(plan, check);
    Measured base = result.measured;
    base.figures[Figure::peak] = *base.figures[Figure::peak] / 2;
    result.base = base.figures;
    try {
      result.assertions = judge(check, result.measured, &base, {});
      result.state = state_of(check, result.assertions, report.today);
      (void)options_of(check);
    } catch (const Error& error) {
      result.state = State::error;
      result.error = error.message();
      result.error_report = error.render();
    }
  }
  return report;
}

void write_all(const CheckReport& report) {
  if (!nlohmann::json::accept(check_json(report, "0")) || !nlohmann::json::accept(check_sarif(report, "0")) ||
      !nlohmann::json::accept(check_gitlab(report)))
    std::abort();
  if (check_md(report, "0", 4'000).size() > 4'000) std::abort();
  (void)check_text(report, {});
  (void)check_junit(report);
  (void)check_github(report);
  (void)check_openmetrics(report);
}

// Whatever the raised limits were written as, they hold now.
void update_again(const Budget& budget, const CheckReport& report, const Report& plan) {
  BudgetUpdate update;
  try {
    update = update_limits(*budget.source, report.results);
  } catch (const Error&) {
    return;  // over several lines
  }
  if (update.edits.empty()) return;
  read_or_abort([&] {
    const Budget raised =
        read_budget(std::make_shared<Source>(Source{.name = "again.yaml", .text = update.text}), run_keys());
    for (const CheckResult& result : report_of(raised, plan).results)
      for (const Assertion& a : result.assertions)
        if (result.state == State::fail && a.state == State::fail && a.kind == Assertion::Kind::max) std::abort();
  });
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_or_error([&] { (void)read_saved_checks({"base.json", text}); });
  read_or_error([&] {
    const Budget budget =
        read_budget(std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = text}), run_keys());
    if (budget.checks.size() > kFewChecks) return;
    const Report plan = tests::example_report();
    const CheckReport report = report_of(budget, plan);
    write_all(report);
    update_again(budget, report, plan);
  });
  return 0;
}
