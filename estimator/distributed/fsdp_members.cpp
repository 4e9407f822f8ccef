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
  const DType stored = stored_type(t.dtype, strategy, run), reduced = strategy.reduce_type.value_or(t.dtype);
  const std::int64_t elements = padded_shard_elements(t.shape, strategy.shards());
  FsdpMember m{parameter,         elements * size_of(stored), elements * size_of(t.dtype), writer.new_slot(),
               writer.new_slot(), writer.new_slot(),          writer.new_slot(),           0};
  m.is_partial = graph.parameters[index(parameter)].partial_elements > 0;
  m.is_converted = stored != t.dtype;
  m.sums_converted = reduced != t.dtype;
  const bool waits = run.micro_batches > 1 && strategy.reduces_last;
  m.gradient_bytes = elements * size_of(waits ? reduced : t.dtype);
  m.summed_bytes = t.shape.elements() * size_of(reduced);
  const std::int32_t place = gradient_place(schedule, parameter);
  if (place != kNone) m.gradient = schedule.gradient_of[index(place)];
  return m;
}

// A weight that is tied is emptied at each of its places, and the last one stays.
void make_shard(const Graph& graph, const FsdpMember& m, const Strategy& strategy, const RunConfig& run,
                CollectiveWriter& writer) {
  const Tensor& t = graph.tensor(graph.parameters[index(m.parameter)].tensor);
  const std::int64_t bytes =
      shard_of(t.shape, strategy.shards(), strategy.shard()).elements() * size_of(stored_type(t.dtype, strategy, run));
  const bool tied = std::ranges::find(graph.tied_shapes, t.shape) != graph.tied_shapes.end();
  std::int32_t again = 0;
  if (tied) {
    again = writer.new_slot();
    writer.allocate(again, bytes, Category::parameters);
    writer.free_buffer(t.buffer);
  }
  if (bytes == m.stored_bytes) return;
  writer.allocate(writer.new_slot(), m.stored_bytes, Category::parameters);
  if (tied)
    writer.free(again);
  else
    writer.free_buffer(t.buffer);
}

}  // namespace

std::vector<FsdpBlocks> fsdp_blocks(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                                    const Strategy& strategy, const RunConfig& run, CollectiveWriter& writer) {
  std::vector<FsdpBlocks> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    FsdpBlocks unit{&units[u], strategy.reshards(u, units.size()), {}};
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
        unit.converts_back = unit.converts_back || reduced != stored_type(type, strategy, run);
      }
      unit.members.push_back(m);
    }
    all.push_back(std::move(unit));
  }
  return all;
}

void write_construction(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy,
                        const RunConfig& run, CollectiveWriter& writer) {
  std::vector<std::size_t> place(graph.tensors.size());  // in the order that the model is made
  for (std::size_t i = 0; i < graph.model_storage.size(); ++i) place[index(graph.model_storage[i])] = i;
  for (std::size_t u = 1; u <= units.size(); ++u) {
    const FsdpBlocks& unit = units[u % units.size()];  // the root last
    std::size_t made = 0;
    const Range events = writer.written([&] {
      for (const FsdpMember& m : unit.members) {
        made = std::max(made, place[index(graph.parameters[index(m.parameter)].tensor)] + 1);
        make_shard(graph, m, strategy, run, writer);
      }
    });
    if (unit.of->path.empty()) made = graph.model_storage.size();
    writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), events});
  }
  std::ranges::stable_sort(writer.memory().construction, {}, &CollectivePoint::step);
}

}  // namespace gpuplan
