#include "estimator/plan/step_parts.h"

#include "estimator/graph/build.h"

namespace gpuplan {

std::vector<Schedule> make_schedules(const Graph& graph, const RunConfig& run, const Gpu& gpu) {
  std::vector<Schedule> passes;
  passes.reserve(2);
  passes.push_back(make_schedule(graph, run, gpu));
  if (run.micro_batches > 1) passes.push_back(make_schedule(graph, run, gpu, &passes.front()));
  return passes;
}

StepParts make_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu) {
  StepParts step;
  step.graph = build_graph(model, catalog, run, gpu);
  step.passes = make_schedules(step.graph, run, gpu);
  step.optimizer = optimizer_work(step.graph, step.passes.front(), run, gpu);
  return step;
}

}  // namespace gpuplan
