#include "estimator/distributed/fsdp1_construction.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/broadcast.h"

namespace gpuplan {
namespace {

std::size_t wrapped_at(std::size_t unit, std::size_t units) { return unit == 0 ? units : unit; }

// sync_module_states: _sync_module_params_and_buffers(), buffers before the root's parameters.
void send(const Graph& graph, const FlatParameter& flat, std::span<const TensorId> cast, bool with_buffers,
          CollectiveWriter& writer) {
  std::vector<GradientSize> tensors;
  for (const BufferTensor& b : graph.named_buffers) {
    if (!with_buffers) break;
    const bool as_made = std::ranges::find(cast, b.tensor) != cast.end();
    const Tensor& t = graph.tensor(b.tensor);
    tensors.push_back({t.shape.elements(), as_made ? DType::fp32 : t.dtype});
  }
  for (const FlatParameter::Within& w : flat.parameters) tensors.push_back({w.elements, flat.stored});
  broadcast_coalesced(writer, tensors);
}

// FlatParamHandle(): paddings are twice as large while they are made. Then shard().
void flatten(const Graph& graph, const FlatParameter& flat, const Strategy& strategy, CollectiveWriter& writer) {
  const std::int64_t size = size_of(flat.stored);
  const auto make = [&](std::int64_t elements) {
    const std::int32_t slot = writer.new_slot();
    writer.allocate(slot, elements * size, Category::parameters);
    return slot;
  };
  std::vector<std::int32_t> paddings;
  for (const std::int64_t elements : flat.paddings) {
    const std::int32_t ones = make(elements);
    paddings.push_back(make(elements));
    writer.free(ones);
  }
  const std::int32_t whole = make(flat.elements);
  for (const std::int32_t slot : paddings) writer.free(slot);
  std::int32_t part = whole;
  if (strategy.shards() > 1) {
    const std::int64_t own = own_elements(flat, strategy.shard());
    if (own > 0) part = make(own);
    if (own < flat.shard_elements) {
      const std::int32_t padded = make(flat.shard_elements);
      if (own > 0) writer.free(part);
      part = padded;
    }
    writer.free(whole);
  }
  for (const FlatParameter::Within& w : flat.parameters)
    writer.free_buffer(buffer_of(graph, graph.parameters[index(w.parameter)].tensor));
  if (strategy.offloads) writer.free(part);
}

}  // namespace

std::vector<TensorId> cast_buffers(const Graph& graph, const Strategy& strategy) {
  std::vector<TensorId> cast;
  for (const BufferTensor& b : graph.named_buffers)
    if (strategy.flat->buffer_type && graph.tensor(b.tensor).dtype == *strategy.flat->buffer_type)
      cast.push_back(b.tensor);
  return cast;
}

void order_by_depth(Graph& graph, std::span<const FsdpUnit> units) {
  using Place = std::tuple<std::size_t, bool, std::int64_t>;  // when it is wrapped, whether it is a buffer, its depth
  std::vector<Place> places(graph.tensors.size(), Place{units.size(), true, 0});
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const std::int32_t p : units[u].parameters) {
      const ParameterTensor& of = graph.parameters[index(p)];
      places[index(of.tensor)] = {wrapped_at(u, units.size()), false,
                                  std::ranges::count(graph.layers[index(of.layer)].name, '.')};
    }
  std::ranges::stable_sort(graph.model_storage, {}, [&](TensorId t) { return places[index(t)]; });
}

std::vector<FlatBuffer> write_flat_construction(const Graph& graph, std::span<const FsdpUnit> units,
                                                std::span<const FlatParameter> flat, const Strategy& strategy,
                                                CollectiveWriter& writer) {
  std::vector<std::size_t> place(graph.tensors.size());
  for (std::size_t i = 0; i < graph.model_storage.size(); ++i) place[index(graph.model_storage[i])] = i;
  std::vector<FlatBuffer> buffers;
  const std::vector<TensorId> cast = cast_buffers(graph, strategy);
  for (const TensorId t : cast) {
    const std::int64_t elements = graph.tensor(t).shape.elements();
    buffers.push_back({writer.new_slot(), elements});
    writer.memory().construction.push_back(
        {Phase::start, static_cast<std::int32_t>(place[index(t)]) + 1, writer.written([&] {
           writer.allocate(buffers.back().slot, elements * size_of(DType::fp32), Category::buffers);
         })});
  }
  for (std::size_t n = 1; n <= units.size(); ++n) {
    const std::size_t u = n % units.size();  // the root last
    if (flat[u].parameters.empty()) continue;
    std::size_t made = u == 0 ? graph.model_storage.size() : 0;
    for (const FlatParameter::Within& w : flat[u].parameters)
      made = std::max(made, place[index(graph.parameters[index(w.parameter)].tensor)] + 1);
    writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), writer.written([&] {
                                              if (strategy.flat->sends_states)
                                                send(graph, flat[u], cast, u == 0, writer);
                                              flatten(graph, flat[u], strategy, writer);
                                            })});
  }
  std::ranges::stable_sort(writer.memory().construction, {}, &CollectivePoint::step);
  return buffers;
}

}  // namespace gpuplan
