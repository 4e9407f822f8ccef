// The schedules of a training step, and what their operations are given.
#pragma once

#include <vector>

#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One schedule; with micro-batches, the schedule of the first and that of all others.
struct MicroBatchSchedules {
  std::vector<Schedule> schedules;
  std::vector<Calls> calls;
};
/// `calls`: otherwise MicroBatchSchedules::calls stays empty.
MicroBatchSchedules make_micro_batch_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu,
                                               bool calls = true);

}  // namespace gpuplan
