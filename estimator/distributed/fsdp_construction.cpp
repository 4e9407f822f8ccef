#include "estimator/distributed/fsdp_construction.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

std::int64_t unpadded_bytes(const Graph& graph, const FsdpMember& m, const Strategy& strategy, const RunConfig& run) {
  const ParameterTensor& p = graph.parameters[index(m.parameter)];
  const Strategy::Group group = shard_group(graph, p, strategy);
  return shard_of(graph.tensor(p.tensor).shape, group.ranks, group.rank).elements() *
         size_of(stored_type(graph, p, strategy, run));
}

void pad_shard(const Graph& graph, const FsdpMember& m, const Strategy& strategy, const RunConfig& run,
               CollectiveWriter& writer) {
  if (unpadded_bytes(graph, m, strategy, run) == m.stored_bytes) return;
  writer.allocate(writer.new_slot(), m.stored_bytes, Category::parameters);
  writer.free_buffer(buffer_of(graph, graph.parameters[index(m.parameter)].tensor));
}

// A weight that is tied is emptied at each of its places, and the last one stays.
void make_shard(const Graph& graph, const FsdpMember& m, const Strategy& strategy, const RunConfig& run,
                CollectiveWriter& writer) {
  const Tensor& t = graph.tensor(graph.parameters[index(m.parameter)].tensor);
  const std::int64_t bytes = unpadded_bytes(graph, m, strategy, run);
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

std::vector<FsdpUnit> units_of(std::span<const FsdpBlocks> blocks) {
  std::vector<FsdpUnit> units;
  for (const FsdpBlocks& unit : blocks) units.push_back(*unit.of);
  return units;
}

}  // namespace

// Accelerate calls it on the embedding when the blocks are done.
std::vector<std::size_t> wrapping_order(const Graph& graph, std::span<const FsdpUnit> units, const Strategy& strategy) {
  std::vector<std::size_t> order;
  for (std::size_t u = 1; u < units.size(); ++u) order.push_back(u);
  const auto first = order.empty() ? graph.layers.end() : std::ranges::find(graph.layers, units[1].path, &Layer::name);
  const bool embedding_first = strategy.wraps_ends && first != graph.layers.end() && first->type == "Embedding";
  if (embedding_first && order.size() > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  order.push_back(0);
  return order;
}

void order_by_unit(Graph& graph, std::span<const FsdpUnit> units, const Strategy& strategy) {
  std::vector<std::size_t> rank(graph.tensors.size(), units.size());  // what is no parameter moves with the root
  std::size_t at = 0;
  for (const std::size_t u : wrapping_order(graph, units, strategy)) {
    at += u == 0 ? 2 : 1;
    for (const std::int32_t p : units[u].parameters) rank[index(graph.parameters[index(p)].tensor)] = at;
  }
  std::ranges::stable_sort(graph.model_storage, {}, [&](TensorId t) { return rank[index(t)]; });
}

// fully_shard() copies the rank's part of each of the unit's parameters, and then lets go of them. Accelerate holds all
// of them, in a state_dict(), until it is through (fsdp2_prepare_model), while the optimizer has an element of each
// instead (accelerator.py, _prepare_fsdp2).
void cut_units(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy, const RunConfig& run,
               CollectiveWriter& writer) {
  std::vector<const FsdpBlocks*> order;
  for (const std::size_t u : wrapping_order(graph, units_of(units), strategy)) order.push_back(&units[u]);
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

// fsdp2_prepare_model() has names for the weights of the embedding and of the head.
static bool is_named(const Graph& graph, const FsdpMember& m, const Strategy& strategy) {
  if (!strategy.as_accelerate) return false;
  const LayerId layer = graph.parameters[index(m.parameter)].layer;
  const bool is_head = layer == graph.parameters.back().layer;
  return graph.tensor(graph.parameters[index(m.parameter)].tensor).shape.rank() == 2 &&
         (is_head || graph.layers[index(layer)].type == "Embedding");
}

// _fsdp_init.py, _move_states_to_device; then FSDPParam._init_sharded_param makes padded shards.
void move_units(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy, const RunConfig& run,
                CollectiveWriter& writer) {
  std::vector<std::size_t> place(graph.tensors.size());
  for (std::size_t i = 0; i < graph.model_storage.size(); ++i) place[index(graph.model_storage[i])] = i;
  const auto point = [&](std::size_t made, const auto& write) {
    writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), writer.written(write)});
  };
  std::vector<std::int32_t> named;
  for (const std::size_t u : wrapping_order(graph, units_of(units), strategy)) {
    if (units[u].members.empty()) continue;
    std::size_t first = graph.model_storage.size(), last = 0;
    std::vector<std::int32_t> wholes;
    for (const FsdpMember& m : units[u].members) {
      const std::size_t at = place[index(graph.parameters[index(m.parameter)].tensor)];
      first = std::min(first, at);
      last = std::max(last, at + 1);
    }
    point(first, [&] {
      for (const FsdpMember& m : units[u].members) {
        const ParameterTensor& p = graph.parameters[index(m.parameter)];
        wholes.push_back(writer.new_slot());
        writer.allocate(wholes.back(), cut_shape(graph, p).elements() * size_of(stored_type(graph, p, strategy, run)),
                        Category::parameters);
      }
    });
    point(last, [&] {
      for (const FsdpMember& m : units[u].members) pad_shard(graph, m, strategy, run, writer);
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        if (is_named(graph, units[u].members[i], strategy))
          named.push_back(wholes[i]);
        else
          writer.free(wholes[i]);
      }
    });
  }
  point(graph.model_storage.size(), [&] {
    for (const std::int32_t slot : named) writer.free(slot);
  });
}

}  // namespace gpuplan
