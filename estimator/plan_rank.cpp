#include "estimator/plan_rank.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "estimator/device/arithmetic.h"
#include "estimator/error.h"
#include "estimator/graph/build.h"
#include "estimator/memory/collective_memory.h"
#include "estimator/memory/placement.h"
#include "estimator/memory/tensor_peak.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/parallel/data_parallel_memory.h"
#include "estimator/parallel/fsdp_units.h"
#include "estimator/parallel/shard_sizes.h"
#include "estimator/report/make_report.h"
#include "estimator/schedule/schedule.h"
#include "estimator/warnings.h"

namespace gpuplan {

std::string_view name_of(DataParallel kind) {
  constexpr std::array<std::string_view, 6> names = {"none", "ddp", "zero1", "zero2", "zero3", "fsdp"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void refuse(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

RunConfig run_of_rank(const RunConfig& run, const Strategy& strategy) {
  const std::int64_t ranks = strategy.ranks();
  if (run.mode == Mode::infer) refuse("several GPUs are planned for training", "leave out --mode infer");
  if (run.batch % ranks != 0)
    refuse("a batch of " + std::to_string(run.batch) + " is not shared by " + std::to_string(ranks) +
               " ranks in equal parts",
           "--batch is the whole step's; " + std::to_string((run.batch / ranks + 1) * ranks) + " is the next one");
  RunConfig own = run;
  own.batch = run.batch / ranks;
  return own;
}

// What the optimizer of the rank steps: the parameters it owns, or its shards.
struct Stepped {
  Graph graph;
  Schedule schedule;  // only what optimizer_work reads
};

Stepped stepped_by(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  Stepped s{graph, {}};
  s.schedule.with_gradient = schedule.with_gradient;
  const std::int64_t ranks = strategy.ranks();
  if (strategy.data == DataParallel::fsdp) {
    for (const ParameterTensor& p : s.graph.parameters) {
      Tensor& t = s.graph.tensor(p.tensor);
      t.shape = shard_of(t.shape, ranks, strategy.rank);
    }
  } else if (strategy.data == DataParallel::zero1) {
    std::vector<std::int64_t> elements;
    std::vector<std::int32_t> trained;
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
      if (!graph.parameters[i].trainable) continue;
      trained.push_back(static_cast<std::int32_t>(i));
      elements.push_back(graph.tensor(graph.parameters[i].tensor).shape.elements());
    }
    s.schedule.with_gradient.clear();
    std::vector<char> owned(graph.parameters.size(), 0);
    for (const std::int32_t i : parameters_of_rank(elements, ranks, strategy.rank)) {
      const std::int32_t parameter = trained[index(i)];
      owned[index(parameter)] = 1;
      if (std::ranges::find(schedule.with_gradient, parameter) != schedule.with_gradient.end())
        s.schedule.with_gradient.push_back(parameter);
    }
    for (std::size_t i = 0; i < s.graph.parameters.size(); ++i)
      if (owned[i] == 0) s.graph.parameters[i].trainable = false;
  }
  return s;
}

// to_empty() goes through the modules in the order of their registration, which is that of model.parameters(); a
// constructor may have made some of them earlier. A module's buffers come after its parameters.
void order_by_module(Graph& graph) {
  std::vector<std::int64_t> place(graph.layers.size(), -1);
  for (std::size_t i = graph.parameters.size(); i-- > 0;)
    place[index(graph.parameters[i].layer)] = static_cast<std::int64_t>(i);
  std::vector<std::pair<std::int64_t, TensorId>> storage;
  std::int64_t before = -1;  // of the layer before, where one has no parameters
  for (const TensorId t : graph.model_storage) {
    const LayerId layer = graph.buffers[index(graph.tensor(t).buffer)].layer;
    if (layer != kNone && place[index(layer)] >= 0) before = place[index(layer)];
    storage.emplace_back(before, t);
  }
  std::ranges::stable_sort(storage, {}, &std::pair<std::int64_t, TensorId>::first);
  for (std::size_t i = 0; i < storage.size(); ++i) graph.model_storage[i] = storage[i].second;
}

// Parameters are there as shards; whole copies of them are the collectives'. The model is made on `meta`, so that
// nothing of its construction but to_empty() allocates.
void keep_shards(Graph& graph, const Strategy& strategy, std::vector<Schedule>& passes) {
  graph.initialization.clear();
  for (const TensorId t : graph.model_storage)
    if (graph.buffers[index(graph.tensor(t).buffer)].category == Category::scratch)
      for (Schedule& s : passes) s.buffers[index(graph.tensor(t).buffer)].bytes = 0;
  for (const ParameterTensor& p : graph.parameters) {
    const Tensor& t = graph.tensor(p.tensor);
    const std::int64_t bytes = shard_of(t.shape, strategy.ranks(), strategy.rank).elements() * size_of(t.dtype);
    for (Schedule& s : passes) s.buffers[index(t.buffer)].bytes = bytes;
  }
}

}  // namespace

Report plan_rank(const Model& model, Catalog catalog, const RunConfig& whole, const Strategy& strategy,
                 const Gpu* named_gpu) {
  if (named_gpu != nullptr) refuse_arithmetic(whole, *named_gpu);
  const RunConfig run = run_of_rank(whole, strategy);
  const Gpu gpu = named_gpu != nullptr ? *named_gpu : assumed_gpu();
  Graph graph = build_graph(model, catalog, run, gpu);
  std::vector<Schedule> passes;
  passes.reserve(2);
  passes.push_back(make_schedule(graph, run, gpu));
  if (run.micro_batches > 1) passes.push_back(make_schedule(graph, run, gpu, &passes.front()));

  CollectiveMemory collectives;
  if (strategy.data == DataParallel::fsdp) {
    order_by_module(graph);
    const std::vector<FsdpUnit> units = fsdp_units(model, catalog, run, gpu, graph, passes.front(), strategy);
    collectives = fsdp_memory(graph, passes.front(), units, strategy, gpu);
    keep_shards(graph, strategy, passes);
  } else if (strategy.data != DataParallel::none) {
    collectives = ddp_memory(graph, passes.front(), strategy);
  }
  const Stepped stepped = stepped_by(graph, passes.front(), strategy);
  const OptimizerWork optimizer = optimizer_work(stepped.graph, stepped.schedule, run, gpu);
  Placement placement = place(graph, passes, optimizer, run, gpu, &collectives);
  const TensorLevels levels = tensor_levels(graph, passes, optimizer, run);
  const PlanParts parts{model, graph, passes, optimizer, placement, levels};
  Report r = make_report(parts, run, gpu);
  r.phases = std::move(placement.phases);
  r.timeline = std::move(placement.timeline);
  if (named_gpu != nullptr) r.gpu = gpu;
  r.warnings = warnings_about(model, graph, run, named_gpu);
  return r;
}

}  // namespace gpuplan
