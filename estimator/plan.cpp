#include "estimator/plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/device/arithmetic.h"
#include "estimator/graph/build.h"
#include "estimator/memory/placement.h"
#include "estimator/memory/tensor_peak.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/report/make_report.h"
#include "estimator/schedule/schedule.h"
#include "estimator/warnings.h"

namespace gpuplan {

Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* named_gpu) {
  if (named_gpu != nullptr) refuse_arithmetic(run, *named_gpu);
  const Gpu gpu = named_gpu != nullptr ? *named_gpu : assumed_gpu();
  const Graph graph = build_graph(model, catalog, run, gpu);
  std::vector<Schedule> passes;
  passes.reserve(2);
  passes.push_back(make_schedule(graph, run, gpu));
  if (run.micro_batches > 1) passes.push_back(make_schedule(graph, run, gpu, &passes.front()));
  const OptimizerWork optimizer = optimizer_work(graph, passes.front(), run, gpu);
  Placement placement = place(graph, passes, optimizer, run, gpu);
  const TensorLevels levels = tensor_levels(graph, passes, optimizer, run);

  const PlanParts parts{model, graph, passes, optimizer, placement, levels};
  Report r = make_report(parts, run, gpu);
  r.phases = std::move(placement.phases);
  r.timeline = std::move(placement.timeline);
  if (named_gpu != nullptr) r.gpu = gpu;
  if (const std::int64_t usable = usable_bytes(r); usable > 0 && r.peak.device_bytes > usable)
    r.within_memory = within_memory(parts, place_within(std::max<std::int64_t>(usable - r.peak.context_bytes, 0), graph,
                                                        passes, optimizer, run, gpu));
  r.warnings = warnings_about(model, graph, run, named_gpu);
  return r;
}

}  // namespace gpuplan
