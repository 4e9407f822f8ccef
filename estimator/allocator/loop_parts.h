// What a training loop runs (training_loop.h).
#pragma once

#include <span>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/graph/graph.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// All of it must outlive the loop.
struct LoopParts {
  const Graph& graph;
  std::span<const Schedule> passes;  // of a step; where there are micro-batches also that of all but the first
  const OptimizerWork& optimizer;
  const RunConfig& run;
  const Gpu& gpu;
  const CollectiveMemory* collectives = nullptr;  // of one rank of several
};

}  // namespace gpuplan
