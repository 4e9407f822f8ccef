#include "estimator/distributed/rank_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/checkpoint_saving.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/deepspeed_memory.h"
#include "estimator/distributed/joined_stages.h"
#include "estimator/distributed/pipeline_communication.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/share_step.h"
#include "estimator/distributed/stage_context.h"
#include "estimator/distributed/stage_model.h"
#include "estimator/distributed/tensor_plan.h"
#include "estimator/graph/build.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/schedule/pruned_graph.h"

namespace gpuplan {

namespace {

// That of a tied embedding is added to the head's, which is a rank's part. Those of norms are of some of the tokens.
void mark_partial_gradients(Graph& graph, const RunConfig& run) {
  if (run.tensor_ranks == 1) return;
  for (ParameterTensor& p : graph.parameters) {
    const TensorStyle style = tensor_style_of(graph.layers[index(p.layer)].name, run.tensor_plan.sequence);
    const Shape& shape = graph.tensor(p.tensor).shape;
    if (is_norm(style)) p.partial_elements = shape.elements();
    if (style == TensorStyle::vocabulary && std::ranges::find(graph.tied_shapes, shape) == graph.tied_shapes.end())
      p.partial_elements = checked_mul(shape.elements(), run.tensor_ranks);
  }
}

// A policy of FSDP2 and DeepSpeed leave buffers as they are, and native_batch_norm wants statistics of its input's
// type: "Expected running_mean to have type BFloat16 but got Float".
void refuse_batch_norm(const Graph& graph, const RunConfig& computed, const Strategy& strategy) {
  const auto norm = std::ranges::find_if(graph.layers, [](const Layer& l) { return l.type.starts_with("BatchNorm"); });
  if (norm != graph.layers.end() && strategy.flat && strategy.param_type)
    throw Error("under this policy FSDP1 wraps " + norm->name + " by itself, in fp32, which is not planned",
                ErrorKind::usage)
        .help("leave out param=");
  if (norm == graph.layers.end() || !computed.buffer_type || computed.precision == *computed.buffer_type) return;
  const bool policy = strategy.data == DataParallel::fsdp;
  throw Error("PyTorch refuses " + norm->name + " under " +
                  (policy ? "this policy" : "DeepSpeed's " + std::string(name_of(computed.precision))) +
                  ": the statistics of a " + std::string(norm->type) + " stay in " +
                  std::string(name_of(*computed.buffer_type)),
              ErrorKind::usage)
      .help(policy ? "leave out param=, or use --amp bf16, which keeps such a layer in fp32"
                   : "--zero fsdp with --amp bf16 keeps such a layer in fp32");
}

// The run as the graph computes it. What FSDP2 gathers under a policy is of the policy's type, and so is all that is
// computed of it; without reduce_dtype gradients are reduced in the type of the parameters that are kept, and
// before 2.15 in param_dtype (torch/distributed/fsdp/_fully_shard/_fsdp_api.py).
RunConfig computed_run(const RunConfig& run, Strategy& strategy) {
  constexpr PyTorchVersion kReducesAsKept = 215;
  RunConfig computed = run;
  if (strategy.data == DataParallel::fsdp && strategy.param_type) {
    computed.given_type = computed.buffer_type = run.precision;
    computed.precision = *strategy.param_type;
    computed.converts_adapters = true;
    if (!strategy.reduce_type)
      strategy.reduce_type = run.pytorch >= kReducesAsKept && !strategy.flat ? run.precision : *strategy.param_type;
  }
  if (run.tensor_plan.sequence && strategy.data == DataParallel::fsdp)
    computed.norm_gradient_type = strategy.reduce_type;
  if (strategy.flat && strategy.flat->buffer_type)
    computed.buffer_type = computed.cast_buffers = strategy.flat->buffer_type;
  computed.copies_outputs = strategy.find_unused_parameters;
  computed.divides_loss = computed.wraps_blocks = strategy.as_accelerate;
  if (strategy.as_accelerate && !strategy.flat) computed.returned_loss = strategy.param_type;
  if (strategy.as_accelerate && strategy.flat) computed.autocast = strategy.param_type;  // prepare_model(): native_amp
  const bool sums = strategy.data == DataParallel::fsdp && !strategy.flat && strategy.sums_first(run.micro_batches);
  if (sums && strategy.reduce_type && *strategy.reduce_type != computed.precision && run.pytorch >= kSumsAsTheyCome)
    computed.gradient_type = strategy.reduce_type;
  if (strategy.is_megatron()) computed.in_engine = true;
  if (strategy.is_deepspeed() && !by_definition(run, strategy)) {
    computed.in_engine = true;
    computed.linear_saves_input = strategy.data == DataParallel::zero3;
    computed.converts_adapters =
        strategy.data != DataParallel::zero3 || !strategy.made_partitioned || strategy.offloads_parameters;
    // zero.Init() makes buffers in the type of the parameters.
    if (strategy.data != DataParallel::zero3 || !strategy.made_partitioned) computed.buffer_type = DType::fp32;
  }
  return computed;
}

// Whether each micro-batch makes its gradients anew, since those of the one before are reduced and gone, or summed
// elsewhere.
bool makes_gradients_anew(const RunConfig& computed, const Strategy& strategy) {
  if (strategy.data == DataParallel::zero2) return computed.in_engine && strategy.partitions_gradients;
  if (strategy.data == DataParallel::zero3) return computed.in_engine;
  if (strategy.is_megatron()) return true;
  if (strategy.data != DataParallel::fsdp) return false;
  if (strategy.flat) return true;
  const bool converted = strategy.reduce_type && *strategy.reduce_type != computed.precision;
  return !strategy.reduces_last || (converted && !computed.gradient_type);
}

// A loader hands over one micro-batch after another.
void take_one_batch_at_a_time(RankStep& step) {
  for (const TensorId t : step.graph.inputs) {
    const BufferId b = step.graph.tensor(t).buffer;
    step.graph.buffers[index(b)].bytes /= step.run.micro_batches;
    for (Schedule& s : step.micro_batches.schedules) s.buffers[index(b)].bytes /= step.run.micro_batches;
  }
}

// The model with a few blocks says what they are given.
struct StageMaker {
  const Model& model;
  Catalog catalog;
  const RunConfig& run;
  const CheckpointConfig* units;
  const Graph begun;

  StageModel build(RankStep& step, std::int64_t number, RunConfig& computed) const {
    const std::int64_t stages = step.strategy.stages();
    computed.stage = StageOfRun{.first = number == 0, .last = number + 1 == stages};
    StageModel of = stage_model(model, catalog, begun, step.strategy, number);
    step.graph = build_graph(of.model, catalog, computed, step.gpu, units);
    if (!computed.stage->last && !step.graph.tensor(step.graph.output).requires_grad)
      throw Error(
          "stage " + std::to_string(number) + " returns hidden states without a gradient: nothing in it is trained",
          ErrorKind::usage)
          .help("its backward is not planned; train a part of each stage, or leave out --pp");
    return of;
  }
};

// stage_backward_input() and stage_backward_weight() run a backward twice.
void refuse_checkpoints(const Graph& graph) {
  if (graph.checkpoints.empty()) return;
  const bool selective = graph.checkpoints.front().selective;
  throw Error(selective
                  ? "PyTorch refuses --checkpoint op where backward is split: \"Trying to backward an extra time. You "
                    "are only allowed to backward once on any region computed under selective activation "
                    "checkpoint.\""
                  : "checkpoints are not planned where backward is split: each part of it runs them again",
              ErrorKind::usage)
      .help("--checkpoint none, or --pp-schedule interleaved1f1b");
}

// The schedules of a graph, and what several GPUs make of them.
void schedule_step(RankStep& step, const RunConfig& computed, bool calls, bool first_is_whole = false) {
  mark_partial_gradients(step.graph, step.run);
  refuse_batch_norm(step.graph, computed, step.strategy);
  if (computed.stage) step.inferring = std::make_unique<Graph>(inferring_graph(step.graph));
  if (splits_backward(step.strategy.pipelining.schedule)) refuse_checkpoints(step.graph);
  // Without a gradient of what it is given, the first stage computes all at once, later.
  if (computed.stage && !computed.stage->first && splits_backward(step.strategy.pipelining.schedule))
    step.split = std::make_unique<SplitBackward>(split_backward(step.graph));
  const SplitUse use{step.split.get(), mixes_backward(step.strategy.pipelining.schedule), first_is_whole};
  step.micro_batches = make_micro_batch_schedules(step.graph, computed, step.gpu, calls, step.inferring.get(), use);
  if (step.run.micro_batches > 1 && makes_gradients_anew(computed, step.strategy)) {
    step.micro_batches.schedules.resize(1);
    if (calls) step.micro_batches.calls.resize(1);
  }
  if (step.run.like == Like::accelerate || step.run.like == Like::lightning) take_one_batch_at_a_time(step);
}

// Each stage is a step of its own until all of it is known.
RankStep with_stages(RankStep rank, const StageMaker& maker, bool calls) {
  std::vector<RankStep> stages;
  rank.pipeline = pipeline_actions(rank.strategy, rank.run.micro_batches);
  rank.part.in_flight = most_in_flight(rank.pipeline);
  for (const std::int64_t number : stages_of_rank(rank.strategy)) {
    RankStep& stage = stages.emplace_back();
    stage.run = rank.run;
    stage.gpu = rank.gpu;
    stage.strategy = rank.strategy;
    stage.strategy.pipelining.stage = number;
    RunConfig computed = maker.run;
    const StageModel of = maker.build(stage, number, computed);
    const auto own = static_cast<std::int32_t>(stages.size()) - 1;
    const auto through = std::ranges::find_if(rank.pipeline, [&](const PipelineAction& a) {
      return a.stage == own &&
             (a.kind == PipelineAction::Kind::backward || a.kind == PipelineAction::Kind::backward_weight);
    });
    schedule_step(stage, computed, calls,
                  through != rank.pipeline.end() && through->kind == PipelineAction::Kind::backward);
    share_model(stage);
    stage.stages.push_back(rank_stage(stage.graph, stage.micro_batches, number, rank.strategy.stages()));
    rank.part.stages.push_back({number, of.first_block, of.blocks});
    rank.part.all_blocks = of.all_blocks;
    rank.part.copies_embedding = rank.part.copies_embedding || of.copies_embedding;
  }
  rank = joined_stages(std::move(rank), std::move(stages));
  if (rank.strategy.context > 1) cut_step(rank, maker.begun.tensor(maker.begun.inputs.front()).shape[1]);
  return rank;
}

// Trainer's _build_accelerator_args(): find_unused_parameters, but for checkpointed models of transformers' own
// classes, which peft's are not.
Strategy as_trainer_asks(Strategy strategy, const RunConfig& run) {
  const bool ddp = strategy.data == DataParallel::ddp || strategy.data == DataParallel::zero1;
  const bool checkpointed =
      run.checkpoint.kind == CheckpointConfig::Kind::block || run.checkpoint.kind == CheckpointConfig::Kind::every;
  if (run.like == Like::trainer && run.mode == Mode::train && ddp)
    strategy.find_unused_parameters = !checkpointed || run.lora.has_value();
  return strategy;
}

}  // namespace

RankStep make_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, const Strategy& given,
                   bool calls) {
  const Strategy strategy = as_trainer_asks(given, run);
  RankStep step;
  step.run = strategy.shares() || strategy.gpus > 1 ? run_of_rank(run, strategy) : run;
  step.gpu = gpu;
  step.strategy = strategy;
  constexpr PyTorchVersion kRootReshards = 208;  // recorded; 2.6 keeps the root's parameters whatever is said
  const bool wraps = strategy.data == DataParallel::fsdp;
  constexpr PyTorchVersion kFirstOfFsdp2 = 203;  // torch/distributed/_composable/fsdp
  if (wraps && !strategy.flat && run.pytorch < kFirstOfFsdp2)
    throw Error("PyTorch before 2.3 has no FSDP2", ErrorKind::usage).help("--pytorch 2.6 or later");
  if (wraps && strategy.reshards_root && run.pytorch < kRootReshards)
    throw Error("fully_shard(reshard_after_forward=True) of the root was recorded with PyTorch 2.8 and later",
                ErrorKind::usage)
        .help("2.6 keeps the root's parameters whatever is said: leave out reshard-root=true");
  if (strategy.experts > 1 && !has_experts(model))
    throw Error(model.name + " has no experts that --ep could share", ErrorKind::usage)
        .help(
            "leave out --ep; a spec that spells its experts out is exported again, with transformers 5, "
            "to have them as the layer Experts");
  const CheckpointConfig wrapped = wrapped_blocks(strategy);
  RunConfig computed = computed_run(step.run, step.strategy);
  const CheckpointConfig* const units = wraps ? &wrapped : nullptr;
  if (strategy.runs_stages()) {
    if (strategy.context > 1) refuse_model_of_context(model);
    const StageMaker maker{model, catalog, computed, units,
                           build_graph(first_blocks(model), catalog, computed, gpu, units)};
    if (strategy.context > 1) refuse_graph_of_context(maker.begun);
    step = with_stages(std::move(step), maker, calls);
  } else {
    const bool cuts = strategy.context > 1 && !strategy.is_megatron();
    if (cuts) refuse_model_of_context(model);
    step.graph = build_graph(model, catalog, computed, gpu, units);
    if (cuts) refuse_graph_of_context(step.graph);
    schedule_step(step, computed, calls);
    if (strategy.shares()) share_model(step);
  }
  step.optimizer = optimizer_work(step.graph, step.schedule(), step.run, gpu);
  if (strategy.shares()) share_states(step);
  step.saving = checkpoint_saving(step);
  return step;
}

std::vector<CommunicationRow> communication(const RankStep& step, const Topology& topology) {
  std::vector<CommunicationRow> rows;
  const auto of = [&](const RankStep& part, const GatherCounts* counts) {
    return communication(part.graph, part.micro_batches.schedules.back(), part.units, part.strategy,
                         part.run.micro_batches, topology, counts);
  };
  if (step.pipeline.empty()) return of(step, nullptr);
  for (std::size_t s = 0; s < step.stages.size(); ++s) {
    const GatherCounts counts = gather_counts(step.strategy, step.pipeline, static_cast<std::int32_t>(s));
    for (const CommunicationRow& row : of(step.joined.empty() ? step : step.joined[s], &counts)) add_row(rows, row);
  }
  const std::vector<CommunicationRow> more = stage_rows(step, topology);
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace gpuplan
