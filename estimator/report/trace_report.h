// What gpuplan plan says of a learned trace. The JSON keeps the keys of gpuplan.plan/1 that a trace can answer and is
// marked as learned (schema gpuplan.plan.learned/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/device/gpu.h"
#include "estimator/report/writers.h"
#include "estimator/trace/learned_trace.h"
#include "estimator/trace/plan_trace.h"

namespace gpuplan {

struct TraceReport {
  std::string file;
  const LearnedTrace* trace = nullptr;  // outlives the report
  TracePlan plan;
  std::int64_t context_bytes = 0;
  std::int64_t nccl_bytes = 0;    // among them, of one communicator of all ranks; 0 where --runtime says what there is
  std::optional<Gpu> gpu;         // named with --gpu
  Margin margin;                  // of its memory
  std::int64_t usable_bytes = 0;  // of it, without the margin
  std::optional<TracePlan> within;  // where it needs more than that: what becomes of the run there
  // The largest value of the first variable that fits, the other one's unchanged; 0: none does.
  std::optional<std::int64_t> largest;
  std::vector<std::string> warnings;

  std::int64_t device_bytes() const {
    return checked_add(checked_add(plan.peak.reserved_bytes, context_bytes), plan.outside_bytes);
  }
  /// Or no GPU is named; see Verdict.
  bool fits() const { return !gpu || device_bytes() <= usable_bytes; }
};

std::string trace_report_text(const TraceReport& report, const TextStyle& style);
std::string trace_report_json(const TraceReport& report, std::string_view version);
/// A row for each phase of each step, heading first.
std::string trace_report_csv(const TraceReport& report);
std::string trace_report_md(const TraceReport& report);

}  // namespace gpuplan
