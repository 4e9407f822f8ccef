#include "estimator/schedule/micro_batch_schedules.h"

#include <cstddef>

namespace gpuplan {

MicroBatchSchedules make_micro_batch_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu, bool calls) {
  MicroBatchSchedules micro_batches;
  const std::size_t count = run.micro_batches > 1 ? 2 : 1;
  micro_batches.schedules.reserve(count);
  if (calls) micro_batches.calls.resize(count);
  const auto given = [&](std::size_t pass) { return calls ? &micro_batches.calls[pass] : nullptr; };
  micro_batches.schedules.push_back(make_schedule(graph, run, gpu, nullptr, given(0)));
  if (count == 1) return micro_batches;
  if (calls) micro_batches.calls[1].gradients = micro_batches.calls[0].gradients;
  micro_batches.schedules.push_back(make_schedule(graph, run, gpu, &micro_batches.schedules[0], given(1)));
  return micro_batches;
}

}  // namespace gpuplan
