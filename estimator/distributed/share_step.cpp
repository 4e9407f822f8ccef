#include "estimator/distributed/share_step.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/deepspeed_memory.h"
#include "estimator/distributed/deepspeed_partitioned.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/fsdp1_construction.h"
#include "estimator/distributed/fsdp_construction.h"
#include "estimator/distributed/megatron_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/rank_states.h"
#include "estimator/distributed/shard_sizes.h"
#include "estimator/distributed/unused_parameters.h"

namespace gpuplan {
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

// The model is made on `meta`, so that nothing of its construction but to_empty() allocates.
void make_on_meta(Graph& graph, std::vector<Schedule>& micro_batches) {
  graph.initialization.clear();
  for (const TensorId t : graph.model_storage)
    if (graph.buffers[index(graph.tensor(t).buffer)].category == Category::scratch)
      for (Schedule& s : micro_batches) s.buffers[index(graph.tensor(t).buffer)].bytes = 0;
}

// zero.Init() makes in half precision what a module asks for in fp32, such as the frequencies of a rotary embedding.
void narrow_buffers(Graph& graph, DType precision, std::vector<Schedule>& micro_batches) {
  for (const BufferTensor& b : graph.named_buffers) {
    const Tensor& t = graph.tensor(b.tensor);
    if (t.dtype != DType::fp32) continue;
    for (Schedule& s : micro_batches)
      s.buffers[index(t.buffer)].bytes = s.buffers[index(t.buffer)].bytes / size_of(t.dtype) * size_of(precision);
  }
}

// A weight that is tied is emptied at each of its places, and the last one stays.
CollectiveMemory empty_tied(const Graph& graph) {
  CollectiveWriter writer;
  const Range events = writer.written([&] {
    for (const ParameterTensor& p : graph.parameters) {
      const Tensor& t = graph.tensor(p.tensor);
      if (std::ranges::find(graph.tied_shapes, t.shape) == graph.tied_shapes.end()) continue;
      writer.allocate(writer.new_slot(), t.shape.elements() * size_of(t.dtype), Category::parameters);
      writer.free_buffer(t.buffer);
    }
  });
  writer.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(graph.model_storage.size()), events});
  return writer.finish();
}

// Parameters are there as shards; whole copies of them are the collectives'.
void keep_shards(Graph& graph, const RunConfig& run, const Strategy& strategy, std::vector<Schedule>& micro_batches) {
  const std::int64_t on_device = strategy.offloads ? 0 : 1;
  for (const ParameterTensor& p : graph.parameters) {
    const Tensor& t = graph.tensor(p.tensor);
    const Strategy::Group group = shard_group(graph, p, strategy);
    const std::int64_t bytes = on_device * shard_of(cut_shape(graph, p), group.ranks, group.rank).elements() *
                               size_of(stored_type(graph, p, strategy, run));
    for (Schedule& s : micro_batches) s.buffers[index(t.buffer)].bytes = bytes;
  }
}

// PyTorch's norms are made on the host, unlike Megatron-core's own modules, and moved when all of these are there.
void move_norms_last(Graph& graph) {
  std::stable_partition(graph.model_storage.begin(), graph.model_storage.end(),
                        [&](TensorId t) { return !is_of_norm(graph, t); });
}

// All is made as it is stored, also where a policy has it gathered in another type.
void load_as_stored(const Graph& graph, const RunConfig& run, const Strategy& strategy,
                    std::vector<Schedule>& micro_batches) {
  for (const ParameterTensor& p : graph.parameters) {
    if (p.packed) continue;
    const Tensor& t = graph.tensor(p.tensor);
    for (Schedule& s : micro_batches)
      s.buffers[index(t.buffer)].bytes = t.shape.elements() * size_of(stored_type(graph, p, strategy, run));
  }
}

// What FSDP1's events allocate instead, on other streams or in other types.
void leave_to_events(const RankStep& step, std::vector<Schedule>& micro_batches) {
  for (const TensorId t : cast_buffers(step.graph, step.strategy))
    for (Schedule& s : micro_batches) s.buffers[index(step.graph.tensor(t).buffer)].bytes = 0;
  for (const FlatParameter& flat : flat_parameters(step.graph, step.units, step.strategy, step.run))
    for (Schedule& s : micro_batches)
      for (const SummedGradient& sum : summed_gradients(s, flat)) s.buffers[index(sum.gradient)].bytes = 0;
}

bool runs_deepspeed(const RankStep& step) {
  return step.strategy.is_deepspeed() && !by_definition(step.run, step.strategy);
}

}  // namespace

void share_model(RankStep& step) {
  const Strategy& strategy = step.strategy;
  step.collectives.emplace();
  const bool loaded = is_bitsandbytes(step.run.weights);  // onto the GPU, before it is shared
  const bool on_meta =
      (strategy.data == DataParallel::fsdp && !loaded) || strategy.data == DataParallel::none || runs_deepspeed(step);
  // Adapters are moved to the GPU with their modules, but beside a model that zero.Init has made.
  const std::vector<TensorId> adapters = on_meta ? std::exchange(step.graph.adapters, {}) : std::vector<TensorId>{};
  if (on_meta) step.graph.saved_modules.clear();
  if (on_meta) order_by_module(step.graph);
  if (strategy.data == DataParallel::zero3 && strategy.made_partitioned)
    std::stable_partition(step.graph.model_storage.begin(), step.graph.model_storage.end(),
                          [&](TensorId t) { return std::ranges::find(adapters, t) == adapters.end(); });
  if (strategy.data == DataParallel::fsdp) {
    step.units = fsdp_units(step.graph, step.micro_batches.schedules.back(), strategy);
    if (strategy.flat)
      order_by_depth(step.graph, step.units);
    else if (strategy.moves_units)
      order_by_unit(step.graph, step.units, strategy);
    step.collectives = strategy.flat
                           ? fsdp1_memory(step.graph, step.micro_batches.schedules, strategy, step.run)
                           : fsdp_memory(step.graph, step.micro_batches.schedules, strategy, step.run, step.gpu);
    if (strategy.flat) leave_to_events(step, step.micro_batches.schedules);
    if (loaded || strategy.flat)
      load_as_stored(step.graph, step.run, strategy, step.micro_batches.schedules);
    else
      keep_shards(step.graph, step.run, strategy, step.micro_batches.schedules);
  } else if (strategy.data == DataParallel::none) {
    step.collectives = empty_tied(step.graph);
  } else if (runs_deepspeed(step)) {
    const auto memory = strategy.data == DataParallel::zero3 ? partitioned_memory : deepspeed_memory;
    step.collectives = memory(step.graph, step.micro_batches.schedules, strategy, step.run, step.gpu);
    if (strategy.data == DataParallel::zero3 && strategy.made_partitioned)
      narrow_buffers(step.graph, step.run.precision, step.micro_batches.schedules);
  } else if (strategy.is_megatron()) {
    move_norms_last(step.graph);
    step.collectives = megatron_memory(step.graph, step.schedule(), strategy, step.run, step.gpu);
  } else if (!strategy.is_deepspeed()) {
    refuse_unused_parameters(step.graph, step.schedule(), strategy);
    step.collectives = ddp_memory(step.graph, step.schedule(), strategy);
  }
  if (on_meta) make_on_meta(step.graph, step.micro_batches.schedules);
}

void share_states(RankStep& step) {
  const Strategy& strategy = step.strategy;
  if (strategy.is_megatron()) {
    step.optimizer = megatron_optimizer(step.graph, step.schedule(), strategy, step.run, step.gpu);
    step.states = megatron_states(step.graph, strategy, state_bytes(step.optimizer));
    return;
  }
  step.states = rank_states(step.graph, step.run, state_bytes(step.optimizer), strategy);
  if (strategy.flat) {
    const StateBytes held = flat_states(flat_parameters(step.graph, step.units, strategy, step.run));
    step.states.parameters = held.parameters;
    step.states.gradients = held.gradients;
  }
  const SteppedShare stepped = stepped_by(step.graph, step.schedule(), step.run, strategy);
  RunConfig stepping = step.run;
  if (runs_deepspeed(step)) stepping.clip_grad_norm = false;  // a factor of the flat gradient
  stepping.optimizer_in_backward = stepping.optimizer_in_backward || !step.collectives->part_steps.empty();
  step.optimizer = optimizer_work(stepped.graph, stepped.schedule, stepping, step.gpu);
  if (runs_deepspeed(step)) {
    const auto states = strategy.data == DataParallel::zero3 ? partitioned_states : deepspeed_states;
    step.states = states(step.graph, strategy, step.run, state_bytes(step.optimizer));
  }
  if (strategy.data == DataParallel::fsdp) step.states.optimizer_state = state_bytes(step.optimizer);
  if (!strategy.offloads) return;
  OptimizerWork on_device;  // clipping and stepping, all states too, are the host's
  on_device.trainer = step.optimizer.trainer;
  step.optimizer = std::move(on_device);
  step.run.offload_optimizer = true;
}

}  // namespace gpuplan
