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
  m.is_converted = stored != t.dtype;
  m.sums_converted = reduced != t.dtype;
  m.gradient_bytes = elements * size_of(reduced);
  m.summed_bytes = t.shape.elements() * size_of(reduced);
  const std::int32_t place = gradient_place(schedule, parameter);
  if (place != kNone) m.gradient = schedule.gradient_of[index(place)];
  if (place != kNone && m.is_partial)
    m.scattered_bytes =
        schedule.buffers[index(m.gradient)].bytes / ceil_div(p.partial_elements, t.shape.elements());
  return m;
}

// A weight that is tied is emptied at each of its places, and the last one stays.
void make_shard(const Graph& graph, const FsdpMember& m, const Strategy& strategy, const RunConfig& run,
                CollectiveWriter& writer) {
  const ParameterTensor& p = graph.parameters[index(m.parameter)];
  const Tensor& t = graph.tensor(p.tensor);
  const Strategy::Group group = shard_group(graph, p, strategy);
  const std::int64_t bytes =
      shard_of(t.shape, group.ranks, group.rank).elements() * size_of(stored_type(graph, p, strategy, run));
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

// fsdp2_load_full_state_dict(): what comes from the rank that has read it, then the shard. On other ranks a name holds
// the last one until the next one is there. A tied weight comes once more, in a slot that is returned.
std::int32_t load_whole(const Graph& graph, const Strategy& strategy, const RunConfig& run, CollectiveWriter& writer) {
  std::vector<const ParameterTensor*> parameter_of(graph.tensors.size(), nullptr);
  for (const ParameterTensor& p : graph.parameters) parameter_of[index(p.tensor)] = &p;
  std::int32_t whole = writer.new_slot(), last = writer.new_slot();
  const std::int32_t shard = writer.new_slot();
  for (std::size_t i = 0; i < graph.model_storage.size(); ++i) {
    const ParameterTensor* const parameter = parameter_of[index(graph.model_storage[i])];
    if (parameter == nullptr) continue;
    const Tensor& t = graph.tensor(parameter->tensor);
    const std::int64_t size = size_of(stored_type(graph, *parameter, strategy, run));
    const auto point = [&](std::size_t made, const auto& write) {
      writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), writer.written(write)});
    };
    point(i, [&] {
      writer.allocate(whole, t.shape.elements() * size, Category::parameters);
      if (strategy.rank != 0) writer.free(last);
    });
    point(i + 1, [&] {
      if (strategy.offloads)  // it goes on to the host
        writer.allocate(shard, shard_of(t.shape, strategy.shards(), strategy.shard()).elements() * size,
                        Category::parameters);
      if (strategy.rank == 0) writer.free(whole);
      writer.free(shard);
    });
    if (strategy.rank != 0) std::swap(whole, last);
  }
  const auto made = static_cast<std::int32_t>(graph.model_storage.size());
  const Range again = writer.written([&] {
    for (const ParameterTensor& p : graph.parameters) {
      const Tensor& t = graph.tensor(p.tensor);
      if (std::ranges::find(graph.tied_shapes, t.shape) != graph.tied_shapes.end())
        writer.allocate(whole, t.shape.elements() * size_of(stored_type(graph, p, strategy, run)),
                        Category::parameters);
    }
    writer.free(last);
  });
  writer.memory().construction.push_back({Phase::start, made, again});
  return whole;
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

// A model that is on the GPU: fully_shard() copies the rank's part of each of the unit's parameters, and then lets go
// of them. Accelerate calls it on the embedding when the blocks are done, and holds all of them, in a state_dict(),
// until it is through (fsdp2_prepare_model), while the optimizer has an element of each instead (accelerator.py,
// _prepare_fsdp2).
void cut_units(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy, const RunConfig& run,
               CollectiveWriter& writer) {
  std::vector<const FsdpBlocks*> order;
  for (const FsdpBlocks& unit : units.subspan(1)) order.push_back(&unit);
  const auto first =
      order.empty() ? graph.layers.end() : std::ranges::find(graph.layers, order.front()->of->path, &Layer::name);
  const bool embedding_first = strategy.wraps_ends && first != graph.layers.end() && first->type == "Embedding";
  if (embedding_first && order.size() > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  order.push_back(&units.front());
  const auto let_go = [&](const FsdpBlocks& unit) {
    for (const FsdpMember& m : unit.members)
      writer.free_buffer(buffer_of(graph, graph.parameters[index(m.parameter)].tensor));
  };
  const Range events = writer.written([&] {
    std::vector<std::int32_t> elements;
    for (const ParameterTensor& p : graph.parameters) {
      if (!p.trainable || !strategy.as_accelerate) continue;
      elements.push_back(writer.new_slot());
      writer.allocate(elements.back(), size_of(stored_type(graph, p, strategy, run)), Category::scratch);
    }
    for (const FsdpBlocks* unit : order) {
      for (const FsdpMember& m : unit->members)
        writer.allocate(writer.new_slot(), m.stored_bytes, Category::parameters);
      if (!strategy.as_accelerate) let_go(*unit);
    }
    for (const FsdpBlocks* unit : order)
      if (strategy.as_accelerate) let_go(*unit);
    for (const std::int32_t slot : elements) writer.free(slot);
  });
  writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(graph.model_storage.size()), events});
}

void write_construction(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy,
                        const RunConfig& run, CollectiveWriter& writer) {
  const std::int32_t whole = strategy.loads_whole ? load_whole(graph, strategy, run, writer) : writer.new_slot();
  std::vector<std::size_t> place(graph.tensors.size());  // in the order that the model is made
  for (std::size_t i = 0; i < graph.model_storage.size(); ++i) place[index(graph.model_storage[i])] = i;
  for (std::size_t u = 1; u <= units.size() && !strategy.offloads; ++u) {
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
  const auto made = static_cast<std::int32_t>(graph.model_storage.size());
  writer.memory().construction.push_back({Phase::start, made, writer.written([&] { writer.free(whole); })});
  std::ranges::stable_sort(writer.memory().construction, {}, &CollectivePoint::step);
}

}  // namespace gpuplan
