#include "estimator/distributed/fsdp_members.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

FsdpMember member_of(const Graph& graph, const Schedule& schedule, std::int32_t parameter, const Strategy& strategy,
                     const RunConfig& run, CollectiveWriter& writer) {
  const Tensor& t = graph.tensor(graph.parameters[index(parameter)].tensor);
  const ParameterTensor& p = graph.parameters[index(parameter)];
  const DType stored = stored_type(graph, p, strategy, run), reduced = strategy.reduce_type.value_or(t.dtype);
  const std::int64_t elements = padded_shard_elements(cut_shape(graph, p), shard_group(graph, p, strategy).ranks);
  FsdpMember m{parameter,         elements * size_of(stored), elements * size_of(t.dtype), writer.new_slot(),
               writer.new_slot(), writer.new_slot(),          writer.new_slot(),           0};
  m.is_partial = p.partial_elements > 0;
  m.is_of_norm = p.partial_elements == t.shape.elements();
  m.is_converted = stored != t.dtype;
  m.sums_converted = reduced != t.dtype;
  m.gradient_bytes = elements * size_of(reduced);
  m.summed_bytes = t.shape.elements() * size_of(reduced);
  const std::int32_t place = gradient_place(schedule, parameter);
  if (place != kNone) m.gradient = schedule.gradient_of[index(place)];
  if (place != kNone && m.is_partial)
    m.scattered_bytes = schedule.buffers[index(m.gradient)].bytes / (p.partial_elements / t.shape.elements());
  return m;
}

}  // namespace

std::vector<FsdpBlocks> fsdp_blocks(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                                    const Strategy& strategy, const RunConfig& run, CollectiveWriter& writer) {
  std::vector<FsdpBlocks> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    FsdpBlocks unit{&units[u], strategy.reshards(u, units.size()), strategy.group(units[u].of_experts).ranks, {}};
    for (std::int32_t* slot :
         {&unit.gathered, &unit.reduced_from, &unit.reduced, &unit.converted, &unit.more, &unit.more_converted})
      *slot = writer.new_slot();
    for (const std::int32_t p : units[u].parameters) {
      const FsdpMember m = member_of(graph, schedule, p, strategy, run, writer);
      unit.shard_bytes += m.shard_bytes;
      if (m.gradient != kNone) {
        const DType type = graph.tensor(graph.parameters[index(p)].tensor).dtype;
        const DType reduced = strategy.reduce_type.value_or(type);
        unit.reduced_bytes += m.shard_bytes / size_of(type) * size_of(reduced);
        unit.kept_bytes += m.stored_bytes;
        unit.converts_back =
            unit.converts_back || reduced != stored_type(graph, graph.parameters[index(p)], strategy, run);
      }
      unit.members.push_back(m);
    }
    all.push_back(std::move(unit));
  }
  return all;
}

}  // namespace gpuplan
