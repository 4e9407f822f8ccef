#include "estimator/schedule/micro_batch_schedules.h"

#include <cstddef>

namespace gpuplan {

MicroBatchSchedules make_micro_batch_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu, bool calls,
                                               const Graph* inferring, const SplitUse& use) {
  MicroBatchSchedules micro_batches;
  const std::size_t count = inferring != nullptr ? (use.mixes ? 4 : 3) : run.micro_batches > 1 ? 2 : 1;
  std::vector<Schedule>& schedules = micro_batches.schedules;
  schedules.reserve(count);
  if (calls) micro_batches.calls.resize(count);
  const auto given = [&](std::size_t pass) { return calls ? &micro_batches.calls[pass] : nullptr; };
  schedules.push_back(
      make_schedule(graph, run, gpu, nullptr, given(0), nullptr, use.first_is_whole ? nullptr : use.split));
  if (count == 1) return micro_batches;
  if (inferring != nullptr) schedules.push_back(make_schedule(*inferring, run, gpu, nullptr, nullptr, &schedules[0]));
  if (calls) micro_batches.calls.back().gradients = micro_batches.calls[0].gradients;
  if (use.mixes) schedules.push_back(make_schedule(graph, run, gpu, &schedules[0], nullptr, &schedules.back()));
  schedules.push_back(make_schedule(graph, run, gpu, &schedules[0], given(count - 1), &schedules.back(), use.split));
  return micro_batches;
}

}  // namespace gpuplan
