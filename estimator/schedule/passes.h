// The schedules of a training step with what their operations are given.
#pragma once

#include <vector>

#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One; where there are micro-batches also that of all but the first.
struct Passes {
  std::vector<Schedule> schedules;
  std::vector<Calls> calls;
};
Passes make_passes(const Graph& graph, const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
