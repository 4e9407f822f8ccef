// Of a plan what a search or a sweep of thousands asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/layer.h"
#include "estimator/report/sweep_table.h"
#include "estimator/run_config.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct PlannedFigures {
  SweepFigures figures;
  std::vector<std::string> warnings;
};

/// sweep_figures() and the warnings of plan(model, catalog, run, gpu), without the rest of that report. Throws what
/// plan() does.
PlannedFigures plan_figures(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr);

}  // namespace gpuplan
