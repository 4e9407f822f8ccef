#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/broadcast.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/ddp_buckets.h"
#include "estimator/distributed/unused_parameters.h"

namespace gpuplan {
namespace {

GradientSize size_of_tensor(const Graph& graph, TensorId t) {
  return {graph.tensor(t).shape.elements(), graph.tensor(t).dtype};
}
GradientSize size_of_parameter(const Graph& graph, const ParameterTensor& p) {
  if (p.packed) return {graph.buffers[index(buffer_of(graph, p.tensor))].bytes, DType::uint8};
  return size_of_tensor(graph, p.tensor);
}

// The reducer takes what is trained (distributed.py, _build_params_for_reducer).
std::vector<GradientSize> trained(const Graph& graph) {
  std::vector<GradientSize> sizes;
  for (const ParameterTensor& p : graph.parameters)
    if (p.trainable) sizes.push_back(size_of_tensor(graph, p.tensor));
  return sizes;
}

// reducer.cpp, verify_params_across_processes: how many parameters are trained, here and on each rank, then their sizes
// and strides, which rank 0 sends.
void compare_parameters(CollectiveWriter& writer, const Graph& graph, std::int64_t ranks) {
  std::int64_t numbers = 0;
  for (const ParameterTensor& p : graph.parameters)
    if (p.trainable) numbers += 2 * graph.tensor(p.tensor).shape.rank();
  std::vector<std::int32_t> slots;
  const auto make = [&](std::int64_t bytes) {
    slots.push_back(writer.new_slot());
    writer.allocate(slots.back(), bytes, Category::scratch);
  };
  for (std::int64_t rank = -1; rank < ranks; ++rank) make(size_of(DType::int64));
  make(numbers * size_of(DType::int64));
  for (const std::int32_t slot : slots) writer.free(slot);
}

std::int64_t first_limit(const Strategy& strategy) {
  return strategy.bucket_cap_bytes == Strategy{}.bucket_cap_bytes ? kFirstBucketBytes : strategy.bucket_cap_bytes;
}

// find_unused_parameters: buckets are made once, of the parameters in their order, and go in the reverse one
// (distributed.py, _ddp_init_helper; reducer.cpp, should_rebuild_buckets). Whoever gets no gradient is zero in its
// bucket, and there with the first gradient (autograd_hook).
std::vector<GradientBucket> buckets_of_parameters(const Graph& graph, const Schedule& schedule,
                                                  const Strategy& strategy) {
  const std::vector<GradientSize> sizes = trained(graph);
  const std::vector<std::int32_t> steps = gradient_steps(schedule);
  if (steps.empty()) return {};
  const std::int32_t first = *std::ranges::min_element(steps);
  std::vector<std::int32_t> latest;  // after which this parameter's gradient and those before it are there
  std::vector<std::int32_t> there;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    if (!graph.parameters[i].trainable) continue;
    const std::int32_t place = gradient_place(schedule, static_cast<std::int32_t>(i));
    there.push_back(place == kNone ? first : steps[index(place)]);
  }
  std::vector<GradientBucket> buckets;
  std::size_t from = 0;
  for (const DdpBucket& b : ddp_buckets(sizes, first_limit(strategy), strategy.bucket_cap_bytes)) {
    const std::size_t begin = std::min(from, b.last), end = b.last + 1;
    const auto members = std::span(there).subspan(begin, end - begin);
    buckets.push_back({b.bytes, b.gradients, *std::ranges::max_element(members)});
    from = std::max(from, end);
  }
  std::ranges::reverse(buckets);
  return buckets;
}

// In the order in which AccumulateGrad runs. A linear layer's bias comes before its weight, whose gradient still has to
// go through TBackward0 (engine.cpp: AccumulateGrad first of all, then the nodes made last).
std::vector<std::size_t> arrivals(const Graph& graph, const Schedule& schedule, std::span<const std::int32_t> steps) {
  std::vector<std::size_t> order(steps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return steps[i]; });
  const auto layer = [&](std::size_t i) { return graph.parameters[index(schedule.with_gradient[i])].layer; };
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const ScheduledOp& step = schedule.ops[index(steps[order[i]])];
    if (layer(order[i]) == layer(order[i + 1]) && std::holds_alternative<Gemm>(*step.what))
      std::swap(order[i], order[i + 1]);
  }
  return order;
}

}  // namespace

std::vector<std::int32_t> gradient_steps(const Schedule& schedule) {
  std::vector<std::int32_t> last(schedule.buffers.size(), kNone);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const ScheduledOp& step = schedule.ops[i];
    if (step.phase != Phase::backward || step.what == nullptr) continue;
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
      last[index(schedule.allocated[index(k)])] = static_cast<std::int32_t>(i);
    for (std::int32_t k = step.reads.begin; k < step.reads.end; ++k)
      last[index(schedule.reads[index(k)])] = static_cast<std::int32_t>(i);
  }
  for (const Schedule::Replacement& taken : schedule.taken)
    last[index(taken.old_buffer)] = last[index(taken.new_buffer)];
  std::vector<std::int32_t> steps;
  for (const BufferId gradient : schedule.gradient_of) {
    steps.push_back(last[index(gradient)]);
    if (steps.back() == kNone) throw std::logic_error("a gradient that no step of backward makes");
  }
  return steps;
}

std::vector<GradientBucket> gradient_buckets(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  if (strategy.find_unused_parameters) return buckets_of_parameters(graph, schedule, strategy);
  const std::vector<std::int32_t> steps = gradient_steps(schedule);
  const std::vector<std::size_t> order = arrivals(graph, schedule, steps);
  std::vector<GradientSize> sizes;
  std::vector<std::int32_t> latest;  // after which this gradient and all before it are there
  for (const std::size_t i : order) {
    sizes.push_back(size_of_tensor(graph, graph.parameters[index(schedule.with_gradient[i])].tensor));
    latest.push_back(latest.empty() ? steps[i] : std::max(latest.back(), steps[i]));
  }
  std::vector<GradientBucket> buckets;
  for (const DdpBucket& b : ddp_buckets(sizes, first_limit(strategy), strategy.bucket_cap_bytes))
    buckets.push_back({b.bytes, b.gradients, latest[b.last]});
  return buckets;
}

std::vector<TensorId> module_buffers(const Graph& graph) {
  std::vector<char> packs(graph.layers.size(), 0);
  for (const ParameterTensor& p : graph.parameters)
    if (p.layer != kNone && p.packed) packs[index(p.layer)] = 1;
  std::vector<TensorId> buffers;
  for (const TensorId t : graph.model_storage) {
    const Buffer& b = graph.buffers[index(buffer_of(graph, t))];
    if (b.category == Category::buffers && (b.layer == kNone || packs[index(b.layer)] == 0)) buffers.push_back(t);
  }
  return buffers;
}

CollectiveMemory ddp_memory(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  CollectiveWriter writer;
  const std::vector<GradientSize> parameters = trained(graph);
  std::vector<GradientSize> buffers;
  for (const TensorId t : module_buffers(graph)) buffers.push_back(size_of_tensor(graph, t));
  const std::vector<std::int32_t> steps = gradient_steps(schedule);

  // One bucket for all at first: the order of backward is not known yet (distributed.py, compute_bucket_size_limits).
  const std::vector<DdpBucket> first = ddp_buckets(parameters, INT64_MAX, INT64_MAX);
  const std::vector<GradientBucket> rebuilt = gradient_buckets(graph, schedule, strategy);
  std::vector<std::int32_t> slots;
  const auto allocate = [&](const auto& buckets) {
    for (const auto& bucket : buckets) {
      slots.push_back(writer.new_slot());
      writer.allocate(slots.back(), bucket.bytes, Category::gradients);
    }
  };
  const Range construction = writer.written([&] {
    compare_parameters(writer, graph, strategy.ranks());
    std::vector<GradientSize> state;
    for (const ParameterTensor& p : graph.parameters) state.push_back(size_of_parameter(graph, p));
    state.insert(state.end(), buffers.begin(), buffers.end());
    broadcast_coalesced(writer, state);
    if (!strategy.find_unused_parameters) return allocate(first);
    allocate(rebuilt);
    // reducer.cpp, initialize_local_used_map: an int32 of each parameter.
    writer.allocate(writer.new_slot(), unused_map_bytes(graph), Category::gradients);
  });
  writer.memory().construction.push_back(
      {Phase::start, static_cast<std::int32_t>(graph.model_storage.size()), construction});
  const auto rebuild = [&] {
    // reducer.cpp, sync_bucket_indices: what rank 0 saw, as int32: indices and a count, then sizes of buckets.
    const std::int32_t indices = writer.new_slot(), sizes = writer.new_slot();
    const auto count = static_cast<std::int64_t>(steps.size());
    writer.allocate(indices, (count + 1) * 4, Category::gradients);
    writer.allocate(sizes, static_cast<std::int64_t>(rebuilt.size()) * 4, Category::gradients);
    writer.free(sizes);
    writer.free(indices);
    for (const std::int32_t slot : std::exchange(slots, {})) writer.free(slot);
    allocate(rebuilt);
  };
  if (!strategy.find_unused_parameters) writer.memory().second_forward = writer.written(rebuild);
  writer.at(Phase::forward, 0, [&] { broadcast_coalesced(writer, buffers); });
  if (strategy.gradient_as_bucket_view)
    for (std::size_t i = 0; i < steps.size(); ++i)
      writer.at(Phase::backward, steps[i] + 1, [&] { writer.free_buffer(schedule.gradient_of[i]); });
  return writer.finish();
}

}  // namespace gpuplan
