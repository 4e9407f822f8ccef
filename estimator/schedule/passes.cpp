#include "estimator/schedule/passes.h"

#include <cstddef>

namespace gpuplan {

Passes make_passes(const Graph& graph, const RunConfig& run, const Gpu& gpu, bool calls) {
  Passes passes;
  const std::size_t count = run.micro_batches > 1 ? 2 : 1;
  passes.schedules.reserve(count);
  if (calls) passes.calls.resize(count);
  const auto given = [&](std::size_t pass) { return calls ? &passes.calls[pass] : nullptr; };
  passes.schedules.push_back(make_schedule(graph, run, gpu, nullptr, given(0)));
  if (count == 1) return passes;
  if (calls) passes.calls[1].gradients = passes.calls[0].gradients;
  passes.schedules.push_back(make_schedule(graph, run, gpu, &passes.schedules[0], given(1)));
  return passes;
}

}  // namespace gpuplan
