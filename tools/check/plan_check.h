// One check of gpuplan.yaml: planned, measured, judged.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "estimator/market/instance.h"
#include "estimator/report/check_report.h"
#include "tools/answers/planning.h"
#include "tools/check/baseline.h"
#include "tools/check/check_side.h"

namespace gpuplan {

/// What the checks of one run share; used by several threads at once.
class CheckPlanner {
 public:
  /// `top`: what models have to lie in; nothing: they may lie anywhere. `base`: null without one. Both have to outlive
  /// the planner. `trusts_code`: RunOptions::trusts_code.
  CheckPlanner(std::optional<std::filesystem::path> top, Baseline* base, Day today, bool trusts_code);

  /// What cannot be planned has the state error, and why; so has what a bug of gpuplan stops. Throws Error of the
  /// environment only.
  CheckResult run(const Check& check);
  /// From now on results have the memory that a page shows.
  void keep_memory() { keeps_memory_ = true; }

 private:
  Planning prepare(const Check& check, const RunOptions& options);
  CheckSide recorded_head(const Check& check, CheckResult& result);
  CheckSide library_head(const Check& check, CheckResult& result);
  CheckSide plan_head(const Check& check, CheckResult& result);
  void finish(const Check& check, CheckSide& side, std::string* price);
  std::optional<CheckSide> base_side(const Check& check, CheckResult& result);
  static void note_unknown_figures(const Check& check, const CheckSide& base, CheckResult& result);
  std::vector<FitsFigures> plan_fits(const Check& check, const CheckSide& head, const CheckSide* base);
  void add_causes(const CheckSide& head, const CheckSide& base, CheckResult& result);
  std::optional<Gpu> gpu_of_fits(const Assertion& a, const Check& check);
  void explain(const CheckSide& head, CheckResult& result);
  Gpu gpu_at(const FitsOn& on);
  Gpu gpu_of(const std::string& text);
  const std::vector<Instance>& instances();

  std::optional<std::filesystem::path> top_;
  Baseline* base_;
  Day today_;
  bool trusts_code_, keeps_memory_ = false;
  std::mutex mutex_;  // of what follows
  std::map<std::string, Gpu> gpus_;
  std::optional<std::vector<Instance>> instances_;
};

}  // namespace gpuplan
