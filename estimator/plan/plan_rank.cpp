#include "estimator/plan/plan_rank.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "estimator/allocator/placement.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"
#include "estimator/distributed/unused_parameters.h"
#include "estimator/graph/build.h"
#include "estimator/plan/assumptions.h"
#include "estimator/plan/at_most.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/step_parts.h"
#include "estimator/plan/tensor_peak.h"
#include "estimator/plan/warnings.h"

namespace gpuplan {

std::string_view name_of(DataParallel kind) {
  constexpr std::array<std::string_view, 6> names = {"none", "ddp", "zero1", "zero2", "zero3", "fsdp"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

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

// The parts of a peak on one GPU with the states of one rank in the place of all.
void share_states(Report& report, const StateBytes& states) {
  std::int64_t bytes = 0;
  for (PeakPart& part : report.peak.parts) {
    std::int64_t kept = part.bytes;
    if (part.category == Category::parameters) kept = states.parameters;
    if (part.category == Category::gradients) kept = std::min(states.gradients, part.bytes);
    if (part.category == Category::optimizer_state) kept = states.optimizer_state;
    if (kept != part.bytes) part.confidence = Confidence::modelled;
    part.bytes = kept;
    bytes += kept;
  }
  report.peak.reading = {bytes, bytes, bytes};
  report.peak.device_bytes = checked_add(bytes, report.peak.context_bytes);
  report.bytes.parameters = states.parameters;
  report.bytes.gradients = states.gradients;
  report.bytes.optimizer_state = states.optimizer_state;
  report.phases.clear();
  report.timeline.clear();
  report.warnings.emplace_back(kDeepSpeedWarning);
}

// Unless --runtime says what is beside the allocator in all.
void add_nccl(std::int64_t bytes, RankPlan& planned) {
  auto& peak = planned.report.peak;
  planned.nccl_bytes = bytes;
  if (bytes > 0) peak.context_confidence = Confidence::assumed;
  peak.context_bytes = checked_add(peak.context_bytes, bytes);
  peak.device_bytes = checked_add(peak.device_bytes, bytes);
}

// Frozen parameters are there as the others are, in parts only where those are.
StateBytes states_of(const Graph& graph, const RunConfig& run, std::int64_t optimizer_bytes, const Strategy& strategy) {
  std::vector<Shape> shapes, frozen;
  std::int64_t elements = 0;
  for (const ParameterTensor& p : graph.parameters) {
    const Shape& shape = graph.tensor(p.tensor).shape;
    (p.trainable ? shapes : frozen).push_back(shape);
    if (p.trainable) elements += shape.elements();
  }
  const std::int64_t size = size_of(run.precision);
  StateBytes states = state_bytes(shapes, {size, size, elements == 0 ? 0 : optimizer_bytes / elements}, strategy);
  states.parameters = checked_add(states.parameters, state_bytes(frozen, {size, 0, 0}, strategy).parameters);
  return states;
}

std::int64_t allocated_states(const OptimizerWork& work) {
  std::int64_t bytes = 0;
  for (const OptimizerProgram* program : {&work.construction, &work.first})
    for (const OptimizerEvent& e : program->events)
      if (e.kind == OptimizerEvent::Kind::alloc_state) bytes += e.bytes;
  return bytes;
}

// What a rank runs, before anything of it is placed.
struct RankParts {
  RunConfig run;  // its own
  Gpu gpu;
  Graph graph;
  std::vector<Schedule> passes;
  std::vector<FsdpUnit> units;
  CollectiveMemory collectives;
  OptimizerWork optimizer;
  StateBytes states;

  Placement placed() const { return place(graph, passes, optimizer, run, gpu, &collectives); }
};

RankParts make_rank(const Model& model, Catalog catalog, const RunConfig& whole, const Strategy& strategy,
                    const Gpu* named_gpu) {
  if (named_gpu != nullptr) refuse_arithmetic(whole, *named_gpu);
  RankParts rank;
  rank.run = run_of_rank(whole, strategy);
  rank.gpu = named_gpu != nullptr ? *named_gpu : assumed_gpu();
  rank.graph = build_graph(model, catalog, rank.run, rank.gpu);
  rank.passes = make_schedules(rank.graph, rank.run, rank.gpu);
  const Schedule& schedule = rank.passes.front();
  if (strategy.data == DataParallel::fsdp) {
    order_by_module(rank.graph);
    rank.units = fsdp_units(model, catalog, rank.run, rank.gpu, rank.graph, schedule, strategy);
    rank.collectives = fsdp_memory(rank.graph, schedule, rank.units, strategy, rank.gpu);
    keep_shards(rank.graph, strategy, rank.passes);
  } else if (strategy.data != DataParallel::none && !strategy.is_deepspeed()) {
    refuse_unused_parameters(rank.graph, schedule, strategy);
    rank.collectives = ddp_memory(rank.graph, schedule, strategy);
  }
  const OptimizerWork of_all = optimizer_work(rank.graph, schedule, rank.run, rank.gpu);
  rank.states = states_of(rank.graph, rank.run, allocated_states(of_all), strategy);
  const SteppedShare stepped = stepped_by(rank.graph, schedule, strategy);
  rank.optimizer = optimizer_work(stepped.graph, stepped.schedule, rank.run, rank.gpu);
  return rank;
}

}  // namespace

std::int64_t rank_reserved_bytes(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                                 const Gpu& gpu) {
  if (strategy.is_deepspeed())
    return plan_rank(model, catalog, run, strategy, {}, &gpu).report.peak.reading.reserved_bytes;
  return make_rank(model, catalog, run, strategy, &gpu).placed().peak.reserved_bytes;
}

RankPlan plan_rank(const Model& model, Catalog catalog, const RunConfig& whole, const Strategy& strategy,
                   const Topology& topology, const Gpu* named_gpu) {
  const RankParts rank = make_rank(model, catalog, whole, strategy, named_gpu);
  RankPlan planned;
  planned.strategy = strategy;
  planned.states = rank.states;
  planned.communication =
      communication(rank.graph, rank.passes.back(), rank.units, strategy, rank.run.micro_batches, topology);
  Placement placement = rank.placed();
  const TensorLevels levels = tensor_levels(rank.graph, rank.passes, rank.optimizer, rank.run);
  const PlanParts parts{model, rank.graph, rank.passes, rank.optimizer, placement, levels};
  Report& r = planned.report = make_report(parts, rank.run, rank.gpu);
  if (named_gpu != nullptr) r.gpu = rank.gpu;
  r.warnings = warnings_about(model, rank.graph, rank.run, named_gpu);
  if (!rank.run.context_bytes) add_nccl(nccl_bytes(strategy), planned);
  if (!strategy.is_deepspeed()) r.at_most = at_most(parts, r, rank.gpu, strategy);
  r.phases = std::move(placement.phases);
  r.timeline = std::move(placement.timeline);
  if (strategy.is_deepspeed()) share_states(r, planned.states);
  r.assumptions = assumptions_of(model, rank.passes, r, rank.gpu, strategy);
  if (strategy.data == DataParallel::fsdp) {
    r.bytes.parameters = planned.states.parameters;
    r.bytes.gradients = planned.states.gradients;
  }
  return planned;
}

}  // namespace gpuplan
