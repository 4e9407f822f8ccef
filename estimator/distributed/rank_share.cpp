#include "estimator/distributed/rank_share.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/deepspeed_memory.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/partitioned_construction.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

void refuse(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

void refuse_fsdp(const RunConfig& run, const Strategy& strategy) {
  if (strategy.ranks() % strategy.replicas != 0)
    refuse("--fsdp replicate=" + std::to_string(strategy.replicas) + " does not divide " +
               std::to_string(strategy.ranks()) + " ranks",
           "a mesh of HSDP is replicas x shards");
  if (strategy.reduces_last && run.micro_batches == 1 && !strategy.runs_stages())
    refuse("--fsdp sync=last says which micro-batch reduces gradients, and there is one", "--micro-batches 4");
  if (strategy.reduces_last && strategy.reduce_type && !strategy.flat &&
      size_of(*strategy.reduce_type) < size_of(strategy.param_type.value_or(run.precision)))
    refuse("a reduction in a narrower type than gradients come in is not planned with --fsdp sync=last",
           "leave out sync=last, or reduce=");
  if (is_bitsandbytes(run.weights) && strategy.offloads)
    refuse("offloading is not planned with weights that bitsandbytes stores", "leave out offload=true");
  if (strategy.offloads && run.scales_gradients())
    refuse("--amp fp16 scales gradients on the GPU, and CPUOffloadPolicy has them on the host", "--amp bf16");
}

// What FSDP1 was not compared with, or refuses.
void refuse_flat(const RunConfig& run, const Strategy& strategy) {
  if (run.pytorch != kNewestPyTorch)
    refuse("FSDP1 is planned as PyTorch 2.15 runs it",
           "leave out --pytorch, or version=1: --fsdp plans FSDP2 of others");
  const bool policy = strategy.param_type || strategy.reduce_type;
  if (strategy.shards() == 1 && policy && run.micro_batches > 1)
    refuse("micro-batches are not planned with FSDP1's NO_SHARD and a policy of mixed precision",
           "strategy=full, or leave out param= and reduce=");
  if (strategy.offloads && run.micro_batches > 1)
    refuse(strategy.reduces_last ? "no_sync() is not planned with FSDP1 that offloads"
                                 : "FSDP1 that offloads does not add up gradients of micro-batches without no_sync()",
           "leave out offload=true, or --micro-batches; --fsdp without version=1 plans FSDP2's offloading");
  if (run.like != Like::pytorch || run.zero_grad == ZeroGrad::backward)
    refuse("FSDP1 was compared in a loop of PyTorch, and as Accelerate applies it",
           "leave out --like and --zero-grad, or version=1, which plans FSDP2");
  if (run.scales_gradients())
    refuse("FSDP1 wants a ShardedGradScaler for --amp fp16, which is not planned", "--amp bf16");
  if (run.weights != WeightFormat::as_computed)
    refuse("stored weights are not planned with FSDP1", "leave out version=1, which plans FSDP2, or --weights");
}

// What transformers' expert parallelism was not compared with, or refuses.
void refuse_experts(const RunConfig& run, const Strategy& strategy) {
  if (run.like != Like::pytorch || run.kernels == Kernels::liger)
    refuse("--like and --kernels are not planned with --ep", "leave them out");
  if (run.clip_grad_norm)
    refuse(
        "PyTorch refuses clip_grad_norm_ of these gradients: \"All operands in aten.stack.default must have the same "
        "mesh\"",
        "leave out --clip-grad-norm");
  if (run.pytorch != kNewestPyTorch)
    refuse("--ep is planned as transformers does it with PyTorch 2.15", "leave out --pytorch");
  if (run.autocast) refuse("--amp is not planned with --ep", "--fsdp param=bf16,reduce=fp32");
  if (run.weights != WeightFormat::as_computed)
    refuse("stored weights are not planned with --ep", "leave out --weights");
  if (strategy.offloads) refuse("offloading is not planned with --ep", "leave out offload=true");
}

// What a schedule of torch.distributed.pipelining was not compared with.
void refuse_run_of_stages(const RunConfig& run) {
  if (run.mode == Mode::infer) refuse("--pp-schedule is planned for training", "leave out --mode infer");
  if (run.pytorch != kNewestPyTorch)
    refuse("the stages of PyTorch before 2.15 are not planned: they keep the buffers of all micro-batches",
           "leave out --pytorch");
  if (run.autocast) refuse("--amp is not planned with --pp-schedule", "--precision bf16, or --fsdp param=bf16");
  if (run.weights != WeightFormat::as_computed)
    refuse("stored weights are not planned with --pp-schedule", "leave out --weights");
  if (run.offload_saved || run.offload_optimizer || run.optimizer_in_backward || run.master_weights)
    refuse("offloading, optimizers in backward and master weights are not planned with --pp-schedule",
           "leave them out");
  if (run.like != Like::pytorch || run.zero_grad == ZeroGrad::backward)
    refuse("a schedule of torch.distributed.pipelining is a loop of its own", "leave out --like and --zero-grad");
  if (run.layout == MemoryFormat::channels_last || run.kernels == Kernels::liger)
    refuse("--layout and --kernels are not planned with --pp-schedule", "leave them out");
  if (run.checkpoint.reentrant)
    refuse("reentrant checkpoints are not planned with --pp-schedule", "--checkpoint block");
}

}  // namespace

RunConfig run_of_rank(const RunConfig& run, const Strategy& strategy) {
  const std::int64_t ranks = strategy.ranks();
  if (run.mode == Mode::infer && strategy.data != DataParallel::none)
    refuse("inference on several GPUs is planned with tensor and context parallelism alone",
           "--tp N for as many --gpus, or --cp N of a decoder");
  if (strategy.runs_stages()) refuse_run_of_stages(run);
  // Its DDP reserved 21 % more than the rules of one GPU and DDP's together say (tests/recorded/libraries).
  if (run.like == Like::lightning && strategy.shares())
    refuse("Lightning's loop on several GPUs is not planned by rules: its own code is run",
           "--like 'lightning(strategy=\"ddp\")', or another strategy of Lightning's");
  const std::int64_t groups = strategy.sample_groups();
  if (run.batch % groups != 0)
    refuse("a batch of " + std::to_string(run.batch) + " cannot be divided equally among " + std::to_string(groups) +
               (strategy.context > 1 ? " groups of ranks" : " ranks"),
           "--batch counts all samples of the step; the next possible one is " +
               std::to_string((run.batch / groups + 1) * groups));
  if (strategy.is_deepspeed() && run.zero_grad == ZeroGrad::backward)
    refuse("DeepSpeed's engine zeroes gradients itself", "leave out --zero-grad");
  if (strategy.is_deepspeed() && (run.master_weights || run.optimizer_in_backward || run.offload_optimizer))
    refuse("DeepSpeed's engine keeps fp32 copies and steps the optimizer itself",
           "leave out --master, --optimizer-in-backward and --offload optimizer; a --deepspeed FILE says what is "
           "offloaded");
  if (!strategy.partitions_gradients && by_definition(run, strategy))
    refuse("DeepSpeed's stage 1 is planned as it runs: training in bf16 or fp16, with an optimizer of torch.optim's",
           "leave out --amp, --layout, --like and DoRA, or ask for stage 2, which is planned by definition then");
  if (strategy.offloads && by_definition(run, strategy))
    refuse("DeepSpeed's offloading is planned as it runs: training in bf16 or fp16, with an optimizer of torch.optim's",
           "--precision bf16, or leave \"offload_optimizer\" out");
  const bool fsdp = strategy.data == DataParallel::fsdp;
  if (run.micro_batches > 1 && strategy.gradient_as_bucket_view)
    refuse("micro-batches are planned with DDP and without --bucket-view only", "leave out --micro-batches");
  if (fsdp) refuse_fsdp(run, strategy);
  if (strategy.flat) refuse_flat(run, strategy);
  if (strategy.experts > 1) refuse_experts(run, strategy);
  if (strategy.context > 1 && !strategy.is_megatron()) refuse_context(run, strategy);
  const bool plain = strategy.data == DataParallel::ddp || (fsdp && !strategy.flat && strategy.experts == 1);
  if (ranks > 1 && run.offload_saved && !plain)
    refuse("--offload saved is planned with DDP and with FSDP2, without experts", "leave it out");
  if (ranks > 1 && (run.optimizer_in_backward || run.offload_optimizer))
    refuse("an optimizer in backward and --offload optimizer are not planned with several GPUs", "leave them out");
  if (fsdp && (run.layout == MemoryFormat::channels_last || run.master_weights))
    refuse("FSDP2 is planned without channels_last and without master weights", "leave them out");
  RunConfig own = run;
  own.batch = run.batch / groups;
  own.context_ranks = strategy.is_megatron() ? 1 : strategy.context;  // its model is of a rank's part
  own.context_rank = strategy.rank % strategy.context;
  own.expert_ranks = strategy.experts;
  own.expert_load = strategy.expert_load;
  return own;
}

bool by_definition(const RunConfig& run, const Strategy& strategy) {
  if (!strategy.is_deepspeed()) return false;
  const bool adapters = !run.lora || (!run.lora->dora && run.lora->saved.empty());
  const bool plain = run.mode == Mode::train && !run.autocast && run.like == Like::pytorch && adapters &&
                     run.weights == WeightFormat::as_computed && run.layout == MemoryFormat::contiguous;
  const bool known = run.optimizer.steps() && !run.optimizer.bitsandbytes && !run.optimizer.recorder;
  return !is_half(run.precision) || !plain || !known;
}

bool is_of_experts(const Graph& graph, const ParameterTensor& parameter) {
  return parameter.layer != kNone && graph.layers[index(parameter.layer)].dispatched;
}

Strategy::Group shard_group(const Graph& graph, const ParameterTensor& parameter, const Strategy& strategy) {
  return strategy.group(is_of_experts(graph, parameter));
}

Shape cut_shape(const Graph& graph, const ParameterTensor& parameter) {
  const Tensor& t = graph.tensor(parameter.tensor);
  if (!parameter.packed) return t.shape;
  const std::int64_t size = size_of(t.dtype);
  return {(graph.buffers[index(t.buffer)].bytes + size - 1) / size, 1};
}

DType stored_type(const Graph& graph, const ParameterTensor& parameter, const Strategy& strategy,
                  const RunConfig& run) {
  const DType computed = graph.tensor(parameter.tensor).dtype;
  if (!strategy.param_type || computed != *strategy.param_type || parameter.packed) return computed;
  return parameter.adapter ? adapter_type(run.precision) : run.precision;
}

SteppedShare stepped_by(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Strategy& strategy) {
  SteppedShare s{graph, {}};
  s.schedule.with_gradient = schedule.with_gradient;
  if (strategy.is_deepspeed() && !by_definition(run, strategy)) {  // flat fp32 tensors: one, or one a part
    std::erase_if(s.graph.parameters, [](const ParameterTensor& p) { return !p.trainable; });
    const auto becomes = [&](std::size_t parameter, std::int64_t elements) {
      Tensor& t = s.graph.tensor(s.graph.parameters[parameter].tensor);
      t.shape = Shape{elements};
      t.strides = contiguous_strides(t.shape);
      t.dtype = DType::fp32;
      s.schedule.with_gradient.push_back(static_cast<std::int32_t>(parameter));
    };
    std::vector<std::int64_t> parts;
    if (strategy.data == DataParallel::zero3)
      for (const PartitionedPart& part : partitioned_parts(graph, strategy)) parts.push_back(part.elements());
    else if (!s.graph.parameters.empty())
      parts.push_back(flat_part(graph, strategy.ranks(), strategy.rank).elements);
    s.schedule.with_gradient.clear();
    s.graph.parameters.resize(parts.size());  // there are as many that are trained, or more
    for (std::size_t i = 0; i < parts.size(); ++i) becomes(i, parts[i]);
  } else if (strategy.flat) {
    step_flat_parameters(s.graph, s.schedule,
                         flat_parameters(graph, fsdp_units(graph, schedule, strategy), strategy, run), strategy);
  } else if (strategy.data == DataParallel::fsdp || strategy.is_deepspeed()) {
    for (ParameterTensor& p : s.graph.parameters) {
      p.partial_elements = 0;  // it is summed before it is reduced
      Tensor& t = s.graph.tensor(p.tensor);
      const Strategy::Group group = shard_group(s.graph, p, strategy);
      t.shape = shard_of(cut_shape(s.graph, p), group.ranks, group.rank);
      t.dtype = stored_type(graph, p, strategy, run);
    }
  } else if (strategy.data == DataParallel::zero1) {
    std::vector<std::int64_t> elements;
    std::vector<std::int32_t> trained;
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
      if (!graph.parameters[i].trainable) continue;
      trained.push_back(static_cast<std::int32_t>(i));
      elements.push_back(graph.tensor(graph.parameters[i].tensor).shape.elements());
    }
    s.schedule.with_gradient.clear();
    std::vector<char> owned(graph.parameters.size(), 0);
    for (const std::int32_t i : parameters_of_rank(elements, strategy.ranks(), strategy.rank)) {
      const std::int32_t parameter = trained[index(i)];
      owned[index(parameter)] = 1;
      if (gradient_place(schedule, parameter) != kNone) s.schedule.with_gradient.push_back(parameter);
    }
    for (std::size_t i = 0; i < s.graph.parameters.size(); ++i)
      if (owned[i] == 0) s.graph.parameters[i].trainable = false;
  }
  return s;
}

}  // namespace gpuplan
