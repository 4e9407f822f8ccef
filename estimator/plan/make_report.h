// What the stages of a plan computed -> Report: totals, sums by layer and module, names of places.
#pragma once

#include <span>
#include <string>

#include "estimator/allocator/placement.h"
#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/plan/report.h"
#include "estimator/plan/tensor_peak.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct PlanParts {
  const Model& model;
  const Graph& graph;
  std::span<const Schedule> passes;  // of the first micro-batch, and of the others where there are some
  const Schedule& schedule() const { return passes.front(); }
  const OptimizerWork& optimizer;
  const Placement& placement;
  const TensorLevels& levels;
};

/// Operations of a step. Throws Error when a sum overflows.
decltype(Report::compute) compute_of(const Schedule& schedule, const OptimizerWork& optimizer, const RunConfig& run);

/// The layer of a peak, or its operation where that belongs to none: peak.layer, or else peak.op of a report.
std::string where(const Graph& graph, std::span<const Schedule> passes, const PeakPlace& at);

/// What cudaMalloc can hand out on the report's GPU where that is known (the driver keeps some of what nvidia-smi
/// shows), else what nvidia-smi shows; 0 without a GPU, or where other allocators than PyTorch's are planned for.
std::int64_t usable_bytes(const Report& report);

/// What `limited` is called in a report.
WithinMemory within_memory(const PlanParts& parts, const LimitedPlacement& limited);

/// All but the phases and the timeline, which are the placement's own, the named GPU and the warnings. `gpu`: the one
/// planned for, named or assumed. Throws Error when a sum overflows.
Report make_report(const PlanParts& parts, const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
