#include "estimator/search/device_bytes.h"

#include <tuple>
#include <vector>

#include "estimator/device/arithmetic.h"
#include "estimator/graph/build.h"
#include "estimator/memory/placement.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

std::int64_t reserved_bytes(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu) {
  refuse_arithmetic(run, gpu);
  const Graph graph = build_graph(model, catalog, run, gpu);
  std::vector<Schedule> passes;
  passes.reserve(2);
  passes.push_back(make_schedule(graph, run, gpu));
  if (run.micro_batches > 1) passes.push_back(make_schedule(graph, run, gpu, &passes.front()));
  const OptimizerWork optimizer = optimizer_work(graph, passes.front(), run, gpu);
  return place(graph, passes, optimizer, run, gpu).peak.reserved_bytes;
}

std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu) {
  return run.context_bytes.value_or(gpu.context_bytes.value_or(kAssumedContextBytes));
}

bool reserve_alike(const Gpu& a, const Gpu& b) {
  const auto facts = [](const Gpu& g) {
    return std::tuple(g.capability_major, g.capability_minor, g.sm_count, g.max_threads_per_sm);
  };
  return facts(a) == facts(b);
}

}  // namespace gpuplan
