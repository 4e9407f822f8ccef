// The schedules of a training step, and what their operations are given.
#pragma once

#include <vector>

#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One schedule; with micro-batches, the schedule of the first and, last, that of all others. Between these a stage of
/// a pipeline has the one that infers shapes.
struct MicroBatchSchedules {
  std::vector<Schedule> schedules;
  std::vector<Calls> calls;
};
/// Which of them that is.
constexpr std::size_t kInferringSchedule = 1;
/// `calls`: otherwise MicroBatchSchedules::calls stays empty. `inferring`: of a stage (pruned_graph.h). `split`: of a
/// stage whose backward is run in two parts.
MicroBatchSchedules make_micro_batch_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu,
                                               bool calls = true, const Graph* inferring = nullptr,
                                               const SplitBackward* split = nullptr);

}  // namespace gpuplan
