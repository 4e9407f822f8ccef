#include "estimator/plan.h"

#include <utility>
#include <vector>

#include "estimator/device/arithmetic.h"
#include "estimator/graph/build.h"
#include "estimator/memory/placement.h"
#include "estimator/memory/tensor_peak.h"
#include "estimator/optimizer/grad_scaler.h"
#include "estimator/report/make_report.h"
#include "estimator/schedule/schedule.h"
#include "estimator/warnings.h"

namespace gpuplan {
namespace {

constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

OptimizerWork optimizer_work(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu) {
  OptimizerWork work;
  if (run.mode == Mode::infer || run.optimizer.kind == OptimizerKind::none) return work;
  const auto parameter = [&](std::int32_t i) {
    const Tensor& t = graph.tensors[index(graph.parameters[index(i)].tensor)];
    return OptimizerParameter{t.shape.elements(), t.dtype};
  };
  std::vector<OptimizerParameter> trained;  // what the optimizer was given
  std::vector<OptimizerParameter> stepped;  // what has a gradient
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    if (graph.parameters[i].trainable) trained.push_back(parameter(static_cast<std::int32_t>(i)));
  for (const std::int32_t i : schedule.with_gradient) stepped.push_back(parameter(i));
  work.construction = optimizer_construction(trained, run.optimizer, run.pytorch);
  if (stepped.empty()) return work;
  if (run.clip_grad_norm) work.clip = clip_grad_norm(stepped, run.pytorch, gpu);
  work.first = optimizer_step(stepped, run.optimizer, run.pytorch, gpu, true);
  work.steady = optimizer_step(stepped, run.optimizer, run.pytorch, gpu, false);
  if (!run.scales_gradients()) return work;
  work.scaler = grad_scaler_state();
  work.first = grad_scaler_step(work.first, run.optimizer.impl);
  work.steady = grad_scaler_step(work.steady, run.optimizer.impl);
  return work;
}

}  // namespace

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

  Report r = make_report({model, graph, passes, optimizer, placement, levels}, run, gpu);
  r.phases = std::move(placement.phases);
  r.timeline = std::move(placement.timeline);
  if (named_gpu != nullptr) r.gpu = gpu;
  r.warnings = warnings_about(model, graph, run, named_gpu);
  return r;
}

}  // namespace gpuplan
