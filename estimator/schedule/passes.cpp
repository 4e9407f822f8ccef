#include "estimator/schedule/passes.h"

#include <cstddef>

namespace gpuplan {

Passes make_passes(const Graph& graph, const RunConfig& run, const Gpu& gpu) {
  Passes passes;
  const std::size_t count = run.micro_batches > 1 ? 2 : 1;
  passes.schedules.reserve(count);
  passes.calls.resize(count);
  passes.schedules.push_back(make_schedule(graph, run, gpu, nullptr, &passes.calls[0]));
  if (count == 1) return passes;
  passes.calls[1].gradients = passes.calls[0].gradients;
  passes.schedules.push_back(make_schedule(graph, run, gpu, &passes.schedules[0], &passes.calls[1]));
  return passes;
}

}  // namespace gpuplan
