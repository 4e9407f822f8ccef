// Plan -> Report: totals, sums by layer and module, and names of positions in the step.
#pragma once

#include <string>

#include "estimator/allocator/loop_replay.h"
#include "estimator/plan/plan.h"

namespace gpuplan {

/// Operations of a step. Throws Error when a sum overflows.
decltype(Report::compute) compute_of(const Schedule& schedule, const OptimizerWork& optimizer, const RunConfig& run);

/// Of context_bytes(): a device's own figure was measured once, on one driver; any other is taken on trust.
Confidence context_confidence(const RunConfig& run, const Gpu& gpu, const Strategy& strategy = {});

/// The layer of a peak, or its operation where that belongs to none: peak.layer, or else peak.op of a report.
std::string where(const RankStep& step, const PeakPlace& at);

/// What `limited` is called in a report.
WithinMemory within_memory(const RankStep& step, const LimitedReplay& limited);

/// Totals, sums by layer and module, names of places: all of report_of() that is the same for one GPU and for one of
/// several. Throws Error when a sum overflows.
Report make_report(const Plan& plan);

}  // namespace gpuplan
