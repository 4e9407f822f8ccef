// The schedules of a training step, and what their operations are given.
#pragma once

#include <vector>

#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One schedule; with micro-batches, the schedule of the first and, last, that of all others. Between these a stage of
/// a pipeline has the one that infers shapes, and after it, where some backwards are run in two parts and others not,
/// that of the latter.
struct MicroBatchSchedules {
  std::vector<Schedule> schedules;
  std::vector<Calls> calls;
};
constexpr std::size_t kInferringSchedule = 1, kWholeSchedule = 2;
/// Whose backward is run in two parts: all, or all but some; then whether the first micro-batch that is through is one
/// of these.
struct SplitUse {
  const SplitBackward* split = nullptr;
  bool mixes = false, first_is_whole = false;
};
/// `calls`: otherwise MicroBatchSchedules::calls stays empty. `inferring`: of a stage (pruned_graph.h).
MicroBatchSchedules make_micro_batch_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu,
                                               bool calls = true, const Graph* inferring = nullptr,
                                               const SplitUse& use = {});

}  // namespace gpuplan
