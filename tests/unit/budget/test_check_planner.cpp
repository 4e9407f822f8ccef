// One check of gpuplan.yaml beside others: what stops it stops none of them.
#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

#include "estimator/budget/read_budget.h"
#include "tools/check/plan_check.h"
#include "tools/check/settings.h"
#include "tools/check/verdict.h"

using namespace gpuplan;

TEST_CASE("a bug that one check meets leaves the others judged, and is the exit code") {
  const Budget budget = read_budget(std::make_shared<Source>(Source{.name = "gpuplan.yaml", .text = R"(gpuplan: 1
checks:
  - {name: broken, model: "zoo:mlp", batch: 64, budget: {peak: 1 GiB}}
  - {name: sound, model: "zoo:mlp", batch: 64, budget: {peak: 1 GiB}}
)"}),
                                    run_keys());
  Baseline base;
  base.find = [](const Check& head) -> BaseCheck {
    if (head.name == "broken") throw std::logic_error("a figure is lost");
    return {};
  };
  CheckPlanner planner(std::nullopt, &base, 20'000, false);
  CheckReport report;
  for (const Check& check : budget.checks) report.results.push_back(planner.run(check));
  CHECK(report.results[0].state == State::error);
  CHECK(report.results[0].error.find("internal error in gpuplan") != std::string::npos);
  CHECK(report.results[0].error.find("a figure is lost") != std::string::npos);
  CHECK(report.results[1].state == State::ok);
  CHECK(exit_code_of(report, FailOn::none) == 70);  // EX_SOFTWARE of sysexits.h
  report.results.erase(report.results.begin());
  CHECK(exit_code_of(report, FailOn::error) == 0);
}
