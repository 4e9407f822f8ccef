#include "estimator/distributed/megatron_memory.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/megatron_layout.h"
#include "estimator/operators/reduction.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMain = 4;          // bytes of fp32
constexpr std::int64_t kNormBlocks = 320;  // sums of multi_tensor_l2norm

std::int64_t parameter_size(const Graph& graph) {
  return graph.parameters.empty() ? 2 : size_of(graph.tensor(graph.parameters.front().tensor).dtype);
}
std::int64_t gradient_size(const Graph& graph, const Strategy& strategy) {
  return strategy.megatron.fp32_gradients ? kMain : parameter_size(graph);
}

class MegatronWriter {
 public:
  MegatronWriter(const Graph& graph, const Schedule& schedule, const Strategy& strategy, const RunConfig& run,
                 const Gpu& gpu)
      : graph_(graph),
        schedule_(schedule),
        strategy_(strategy),
        run_(run),
        gpu_(gpu),
        layout_(megatron_layout(graph, strategy)),
        parts_(megatron_parts(graph, strategy)) {}

  CollectiveMemory write() {
    writer_.memory().clips_within_step = true;
    writer_.memory().part_steps.resize(2);  // groups with weight decay and without
    const std::int32_t tokens = writer_.new_slot();
    make_norms();
    at_construction(graph_.model_storage.size(), [&] { construct(); });
    // forward_backward_no_pipelining: total_num_tokens
    writer_.at(Phase::forward, 0, [&] { writer_.allocate(tokens, 4, Category::scratch); });
    make_loop();
    for (const MicroBatch kind : {MicroBatch::first, MicroBatch::middle, MicroBatch::last}) {
      writer_.of_micro_batch(kind);
      micro_batch(kind);
    }
    writer_.memory().before_optimizer = writer_.written([&] {
      writer_.free(tokens);
      for (const std::int32_t slot : reports_) writer_.free(slot);
      widen_gradients();
      norms();
      if (run_.clip_grad_norm) scale_gradients();
    });
    writer_.memory().zero_grad = writer_.written([&] {
      for (const std::int32_t slot : wide_) writer_.free(slot);
    });
    return writer_.finish();
  }

 private:
  template <class Write>
  void at_construction(std::size_t made, Write write) {
    writer_.memory().construction.push_back({Phase::start, static_cast<std::int32_t>(made), writer_.written(write)});
  }

  // PyTorch's norms are moved in fp32 all together, and then converted by Float16Module one after the other. They are
  // the last ones made.
  void make_norms() {
    const std::vector<TensorId>& made = graph_.model_storage;
    std::vector<std::int32_t> wide;
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(made, [&](TensorId t) { return is_of_norm(graph_, t); }) - made.begin());
    at_construction(first, [&] {
      for (std::size_t i = first; i < made.size(); ++i)
        writer_.allocate(wide.emplace_back(writer_.new_slot()), graph_.tensor(made[i]).shape.elements() * kMain,
                         Category::parameters);
    });
    for (std::size_t i = first; i < made.size(); ++i) at_construction(i + 1, [&] { writer_.free(wide[i - first]); });
  }

  void construct() {
    const std::int32_t gradients = writer_.new_slot();
    if (strategy_.megatron.distributed_optimizer) {
      writer_.allocate(writer_.new_slot(), layout_.elements * parameter_size(graph_), Category::parameters);
      writer_.allocate(gradients, layout_.elements * gradient_size(graph_, strategy_), Category::gradients);
      for (const MegatronLayout::Placed& p : layout_.placed)
        writer_.free_buffer(graph_.tensor(graph_.parameters[index(p.parameter)].tensor).buffer);
    } else {
      writer_.allocate(gradients, layout_.elements * gradient_size(graph_, strategy_), Category::gradients);
    }
    writer_.allocate(writer_.new_slot(), kMain, Category::scratch);  // MixedPrecisionOptimizer's _scale_one
    if (strategy_.megatron.transformer_engine)
      writer_.allocate(writer_.new_slot(), kMain, Category::scratch);  // FusedAdam's _dummy_overflow_buf
    const std::int32_t copy = writer_.new_slot();
    for (const MegatronPart& part : parts_) {
      writer_.allocate(copy, part.elements * parameter_size(graph_), Category::parameters);
      writer_.allocate(writer_.new_slot(), part.elements * kMain, Category::optimizer_state);
      writer_.free(copy);
    }
  }

  void make_loop() {
    for (std::int64_t m = 1; m < run_.micro_batches; ++m) reports_.push_back(writer_.new_slot());
    for (std::int32_t& slot : results_) slot = writer_.new_slot();
  }

  // The loop's list has each micro-batch's report, and its names the loss and the number of tokens until the next
  // micro-batch has its own. All reports are placed with the first one.
  void micro_batch(MicroBatch kind) {
    const auto begin = std::ranges::find(schedule_.ops, Phase::backward, &ScheduledOp::phase) - schedule_.ops.begin();
    const auto end = static_cast<std::int32_t>(schedule_.ops.size());
    const bool first = kind == MicroBatch::first, last = kind == MicroBatch::last || run_.micro_batches == 1;
    if (!first)
      writer_.at(Phase::forward, static_cast<std::int32_t>(begin), [&] {
        for (const std::int32_t slot : results_) writer_.free(slot);
      });
    backward();
    if (last) sum_norms();
    if (!last)
      writer_.at(Phase::backward, end, [&] {
        if (first)
          for (const std::int32_t slot : reports_) writer_.allocate(slot, 2 * kMain, Category::scratch);
        for (const std::int32_t slot : results_) writer_.allocate(slot, kMain, Category::scratch);
      });
  }

  // _make_backward_post_hook: param.main_grad.add_(param.grad.data)
  void backward() {
    for (std::size_t i = 0; i < schedule_.with_gradient.size(); ++i)
      writer_.at(Phase::backward, schedule_.gradient_arrives[i],
                 [&] { writer_.free_buffer(schedule_.gradient_of[i]); });
    const auto end = static_cast<std::int32_t>(schedule_.ops.size());
    writer_.at(Phase::backward, end, [&] { writer_.free_buffer(schedule_.loss); });
  }

  // finalize_model_grads, _allreduce_non_tensor_model_parallel_grads: norms' gradients of parts of the tokens, in one.
  void sum_norms() {
    if (!strategy_.megatron.sequence_parallel || strategy_.tensor == 1) return;
    std::int64_t elements = 0;
    for (const ParameterTensor& p : graph_.parameters)
      if (graph_.tensor(p.tensor).shape.rank() == 1) elements += graph_.tensor(p.tensor).shape.elements();
    writer_.at(Phase::backward, static_cast<std::int32_t>(schedule_.ops.size()), [&] {
      const std::int32_t flat = writer_.new_slot();
      writer_.allocate(flat, elements * gradient_size(graph_, strategy_), Category::scratch);
      writer_.free(flat);
    });
  }

  // _copy_model_grads_to_main_grads: .float() of what is fp32 is itself.
  void widen_gradients() {
    if (strategy_.megatron.fp32_gradients) return;
    for (const MegatronPart& part : parts_)
      writer_.allocate(wide_.emplace_back(writer_.new_slot()), part.elements * kMain, Category::gradients);
  }

  // get_grad_norm_fp32 and local_multi_tensor_l2_norm: norms are kept until all are there.
  void norms() {
    const std::int32_t overflow = writer_.new_slot();
    writer_.allocate(overflow, kMain, Category::scratch);
    std::vector<std::int32_t> made;
    if (strategy_.megatron.transformer_engine && !parts_.empty()) {  // multi_tensor_l2norm
      const std::int32_t sums = writer_.new_slot();
      writer_.allocate(sums, kNormBlocks * kMain, Category::scratch);
      writer_.allocate(made.emplace_back(writer_.new_slot()), kMain, Category::scratch);
      writer_.free(sums);
    }
    for (const MegatronPart& part : parts_) {
      if (strategy_.megatron.transformer_engine) break;
      writer_.allocate(made.emplace_back(writer_.new_slot()), kMain, Category::scratch);
      std::vector<std::int32_t> scratch;
      for (const std::int64_t bytes :
           reduction_scratch({part.elements}, 1, DType::fp32, DType::fp32, gpu_, ReductionKind::mean))
        writer_.allocate(scratch.emplace_back(writer_.new_slot()), bytes, Category::scratch);
      for (const std::int32_t slot : scratch) writer_.free(slot);
    }
    writer_.allocate(made.emplace_back(writer_.new_slot()), kMain, Category::scratch);
    for (const std::int32_t slot : made) writer_.free(slot);
    writer_.free(overflow);
  }

  // local_multi_tensor_scale: gradient.copy_(gradient * factor). Transformer Engine's is in place.
  void scale_gradients() {
    if (strategy_.megatron.transformer_engine) return;
    const std::int32_t scaled = writer_.new_slot();
    for (const MegatronPart& part : parts_) {
      writer_.allocate(scaled, part.elements * kMain, Category::gradients);
      writer_.free(scaled);
    }
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Strategy& strategy_;
  const RunConfig& run_;
  const Gpu& gpu_;
  MegatronLayout layout_;
  std::vector<MegatronPart> parts_;
  CollectiveWriter writer_;
  std::vector<std::int32_t> wide_;     // gradients in fp32
  std::vector<std::int32_t> reports_;  // of all micro-batches but the last one
  std::array<std::int32_t, 2> results_{};
};

// One group of the main parameters as a model of its own, which is all that its optimizer sees.
OptimizerWork work_of_group(const Graph& graph, std::span<const MegatronPart> parts, const RunConfig& run,
                            const Gpu& gpu) {
  Graph group = graph;
  Schedule schedule;
  std::vector<ParameterTensor> parameters;
  for (const MegatronPart& part : parts) {
    schedule.with_gradient.push_back(static_cast<std::int32_t>(parameters.size()));
    ParameterTensor& p = parameters.emplace_back(graph.parameters[index(part.parameter)]);
    p.partial_elements = 0;
    Tensor& t = group.tensor(p.tensor);
    t.shape = Shape{part.elements};
    t.strides = contiguous_strides(t.shape);
    t.dtype = DType::fp32;
  }
  group.parameters = std::move(parameters);
  return optimizer_work(group, schedule, run, gpu);
}

// Transformer Engine's FusedAdam: PyTorch's fused one, but that steps are counted on the host, once a group.
void leave_counters_on_host(OptimizerWork& work) {
  constexpr std::size_t kOfParameter = 3;  // the counter, exp_avg and exp_avg_sq
  std::size_t state = 0;
  std::erase_if(work.first.events, [&](const OptimizerEvent& e) {
    return e.kind == OptimizerEvent::Kind::alloc_state && state++ % kOfParameter == 0;
  });
}

}  // namespace

bool is_of_norm(const Graph& graph, TensorId t) {
  const LayerId layer = graph.buffers[index(buffer_of(graph, t))].layer;
  return layer != kNone && graph.layers[index(layer)].type == "RMSNorm";
}

CollectiveMemory megatron_memory(const Graph& graph, const Schedule& schedule, const Strategy& strategy,
                                 const RunConfig& run, const Gpu& gpu) {
  return MegatronWriter(graph, schedule, strategy, run, gpu).write();
}

OptimizerWork megatron_optimizer(const Graph& graph, const Schedule& schedule, const Strategy& strategy,
                                 const RunConfig& run, const Gpu& gpu) {
  RunConfig stepping = run;
  stepping.clip_grad_norm = false;  // megatron_memory has it
  if (strategy.megatron.transformer_engine) stepping.optimizer.impl = OptimizerImpl::fused;
  const std::vector<MegatronPart> parts = megatron_parts(graph, strategy);
  const auto decayed = std::ranges::count(parts, true, &MegatronPart::decays);
  OptimizerWork all;
  all.trainer = optimizer_work(graph, schedule, stepping, gpu).trainer;
  for (const std::span<const MegatronPart> group : {std::span(parts).first(static_cast<std::size_t>(decayed)),
                                                    std::span(parts).subspan(static_cast<std::size_t>(decayed))}) {
    OptimizerWork work = work_of_group(graph, group, stepping, gpu);
    if (strategy.megatron.transformer_engine) leave_counters_on_host(work);
    all.first_of.push_back(work.first);
    all.steady_of.push_back(work.steady);
  }
  return all;
}

StateBytes megatron_states(const Graph& graph, const Strategy& strategy, std::int64_t optimizer_bytes) {
  StateBytes states;
  const MegatronLayout layout = megatron_layout(graph, strategy);
  for (const MegatronLayout::Placed& p : layout.placed) states.parameters += p.elements * parameter_size(graph);
  if (strategy.megatron.distributed_optimizer) states.parameters = layout.elements * parameter_size(graph);
  states.gradients = checked_mul(layout.elements, gradient_size(graph, strategy));
  states.optimizer_state = optimizer_bytes;
  for (const MegatronPart& part : megatron_parts(graph, strategy))
    states.optimizer_state = checked_add(states.optimizer_state, part.elements * kMain);
  return states;
}

MegatronBytes megatron_bytes(const Graph& graph, const Strategy& strategy) {
  const MegatronLayout layout = megatron_layout(graph, strategy);
  const std::int64_t size = gradient_size(graph, strategy);
  const std::int64_t last = layout.buckets.empty() ? 0 : layout.buckets.back().end - layout.buckets.back().begin;
  return {layout.elements * size, layout.elements * parameter_size(graph), last * size, last * parameter_size(graph),
          std::ssize(layout.buckets)};
}

}  // namespace gpuplan
