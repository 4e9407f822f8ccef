// The figures of a plan that searches and sweeps need for thousands of plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/distributed/collectives.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/timing.h"
#include "estimator/search/sweep_row.h"

namespace gpuplan {

SweepFigures sweep_figures(const Report& report);

struct PlannedFigures {
  SweepFigures figures;
  std::vector<std::string> warnings;
};

/// Whether a part of the step is on the host: sums of what is there are checked by a whole report, and no time is
/// known.
inline bool on_host(const RunConfig& run) { return run.offload_saved || run.offload_optimizer; }

/// sweep_figures() and the warnings of report_of(plan), of one GPU, without the rest of it. Throws what that does.
PlannedFigures figures_of(const Plan& plan);

/// Of the plan of one rank, whose batch is the whole step's; with a copy of the batch also what rank_time() says, where
/// it says something.
PlannedFigures rank_figures(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                            const Topology& topology, const Gpu* gpu, std::optional<HostCopy> timed = std::nullopt);

}  // namespace gpuplan
