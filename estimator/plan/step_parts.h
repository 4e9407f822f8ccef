// What a step runs, before anything of it is placed in memory.
#pragma once

#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct StepParts {
  Graph graph;
  std::vector<Schedule> passes;  // of the first micro-batch; where there are more, also that of all others
  OptimizerWork optimizer;
};

/// The first three stages of a plan. Throws Error for a model or a run that PyTorch would refuse.
StepParts make_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu);

/// The second of them.
std::vector<Schedule> make_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
