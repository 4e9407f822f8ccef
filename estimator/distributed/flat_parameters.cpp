#include "estimator/distributed/flat_parameters.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/graph/graph.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes; _flat_param.py, _get_aligned_numel

void pad(FlatParameter& flat, std::int64_t multiple) {
  const std::int64_t padding = round_up(flat.elements, multiple) - flat.elements;
  if (padding == 0) return;
  flat.paddings.push_back(padding);
  flat.elements += padding;
}

void become_flat(Graph& graph, std::int32_t parameter, std::int64_t elements, DType type) {
  Tensor& t = graph.tensor(graph.parameters[index(parameter)].tensor);
  t.shape = Shape{elements};
  t.strides = contiguous_strides(t.shape);
  t.dtype = type;
}

}  // namespace

FlatParameter flat_layout(const Graph& graph, const FsdpUnit& unit, const Strategy& strategy) {
  FlatParameter flat;
  if (unit.parameters.empty()) return flat;
  const ParameterTensor& first = graph.parameters[index(unit.parameters.front())];
  flat.stored = flat.computed = graph.tensor(first.tensor).dtype;
  flat.reduced = strategy.reduce_type.value_or(flat.computed);
  const bool aligns = strategy.flat->original_parameters;
  for (const std::int32_t p : unit.parameters) {
    if (aligns) pad(flat, kAlignment / size_of(flat.computed));
    const std::int64_t elements = graph.tensor(graph.parameters[index(p)].tensor).shape.elements();
    flat.parameters.push_back({p, flat.elements, elements});
    flat.elements += elements;
  }
  const std::int64_t ranks = strategy.shards();
  if (aligns) pad(flat, ranks);
  flat.shard_elements = (flat.elements + ranks - 1) / ranks;
  return flat;
}

std::vector<FlatParameter> flat_parameters(const Graph& graph, std::span<const FsdpUnit> units,
                                           const Strategy& strategy, const RunConfig& run) {
  std::vector<FlatParameter> flat;
  for (const FsdpUnit& unit : units) {
    flat.push_back(flat_layout(graph, unit, strategy));
    if (!unit.parameters.empty())
      flat.back().stored = stored_type(graph, graph.parameters[index(unit.parameters.front())], strategy, run);
  }
  return flat;
}

StateBytes flat_states(std::span<const FlatParameter> flat) {
  StateBytes states;
  for (const FlatParameter& f : flat)
    states.parameters = checked_add(states.parameters, checked_mul(f.shard_elements, size_of(f.stored)));
  states.gradients = states.parameters;
  return states;
}

std::int64_t own_elements(const FlatParameter& flat, std::int64_t rank) {
  return std::clamp<std::int64_t>(flat.elements - rank * flat.shard_elements, 0, flat.shard_elements);
}

std::int64_t own_elements(const FlatParameter& flat, const FlatParameter::Within& of, std::int64_t rank) {
  const std::int64_t begin = std::max(of.begin, rank * flat.shard_elements);
  const std::int64_t end = std::min(of.begin + of.elements, (rank + 1) * flat.shard_elements);
  return std::max<std::int64_t>(end - begin, 0);
}

std::vector<SummedGradient> summed_gradients(const Schedule& schedule, const FlatParameter& flat) {
  std::vector<BufferId> gradients;
  for (const FlatParameter::Within& w : flat.parameters)
    if (const std::int32_t place = gradient_place(schedule, w.parameter); place != kNone)
      gradients.push_back(schedule.gradient_of[index(place)]);
  std::vector<SummedGradient> sums;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const ScheduledOp& step = schedule.ops[i];
    if (step.phase != Phase::backward || step.op != Operator::add) continue;
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
      if (const BufferId made = schedule.allocated[index(k)]; std::ranges::find(gradients, made) != gradients.end())
        sums.push_back({static_cast<std::int32_t>(i), made});
  }
  return sums;
}

// A parameter of which the rank has nothing gets no gradient (_use_sharded_grad_views). model.parameters() has the
// root's flat parameter first.
void step_flat_parameters(Graph& graph, Schedule& schedule, std::span<const FlatParameter> flat,
                          const Strategy& strategy) {
  std::vector<std::int32_t> with_gradient;
  if (strategy.flat->original_parameters) {
    for (const FlatParameter& f : flat)
      for (const FlatParameter::Within& w : f.parameters) {
        const std::int64_t own = own_elements(f, w, strategy.shard());
        become_flat(graph, w.parameter, own, f.stored);
        if (own > 0 && gradient_place(schedule, w.parameter) != kNone) with_gradient.push_back(w.parameter);
      }
    std::ranges::sort(with_gradient);
  } else {
    std::vector<const FlatParameter*> whole;
    for (const FlatParameter& f : flat)
      if (!f.parameters.empty()) whole.push_back(&f);
    graph.parameters.resize(whole.size());  // there are as many, or more
    for (std::size_t i = 0; i < whole.size(); ++i) {
      become_flat(graph, static_cast<std::int32_t>(i), whole[i]->shard_elements, whole[i]->stored);
      with_gradient.push_back(static_cast<std::int32_t>(i));
    }
  }
  schedule.with_gradient = std::move(with_gradient);
}

}  // namespace gpuplan
