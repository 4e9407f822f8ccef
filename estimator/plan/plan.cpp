#include "estimator/plan/plan.h"
#include "estimator/base/format.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/rank_states.h"
#include "estimator/plan/assumptions.h"
#include "estimator/plan/at_most.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/warnings.h"

namespace gpuplan {
namespace {

// The parts of a peak on one GPU with the states of one rank in the place of all.
void share_states(Report& report, const StateBytes& states) {
  std::int64_t bytes = 0;
  for (PeakPart& part : report.peak.parts) {
    std::int64_t kept = part.bytes;
    if (part.category == Category::parameters) kept = states.parameters;
    if (part.category == Category::gradients) kept = std::min(states.gradients, part.bytes);
    if (part.category == Category::optimizer_state) kept = states.optimizer_state;
    if (kept != part.bytes) part.confidence = Confidence::modelled;
    part.bytes = kept;
    bytes += kept;
  }
  report.peak.reading = {bytes, bytes, bytes};
  report.peak.device_bytes = checked_add(bytes, report.peak.context_bytes);
  report.bytes.parameters = states.parameters;
  report.bytes.gradients = states.gradients;
  report.bytes.optimizer_state = states.optimizer_state;
  report.phases.clear();
  report.timeline.clear();
  report.warnings.emplace_back(kDeepSpeedWarning);
}

// FSDP2 cuts the first dimension, of which a rank's experts have as many as there are of them.
void warn_of_padded_experts(const RankStep& step, std::vector<std::string>& warnings) {
  const std::int64_t ranks = step.strategy.group(true).ranks;
  for (const FsdpUnit& unit : step.units) {
    if (!unit.of_experts || unit.parameters.empty()) continue;
    const std::int64_t experts =
        step.graph.tensor(step.graph.parameters[index(unit.parameters.front())].tensor).shape[0];
    const std::int64_t padded = round_up(experts, ranks);
    if (padded == experts) return;
    warnings.push_back("the experts of a rank, " + std::to_string(experts) + ", are shared by " +
                       std::to_string(ranks) + " ranks, and FSDP2 pads them to " + std::to_string(padded) +
                       ": so much more is gathered and reduced");
    return;
  }
}

// What bitsandbytes stores is loaded on every GPU before it is cut, and lies in a type that can be
// (bnb_4bit_quant_storage, whose default is uint8; accelerate/utils/fsdp_utils.py, fsdp2_prepare_model).
void warn_of_loading(const RankStep& step, std::vector<std::string>& warnings) {
  const auto packed = std::ranges::find(step.graph.parameters, true, &ParameterTensor::packed);
  if (packed == step.graph.parameters.end() || step.strategy.shards() == 1) return;
  std::int64_t whole = 0;
  for (const TensorId t : step.graph.model_storage) {
    const Buffer& b = step.graph.buffers[index(buffer_of(step.graph, t))];
    if (b.category == Category::buffers) whole = checked_add(whole, b.bytes);
  }
  for (const ParameterTensor& p : step.graph.parameters) {
    const std::int64_t size = size_of(stored_type(step.graph, p, step.strategy, step.run));
    whole = checked_add(whole, checked_mul(cut_shape(step.graph, p).elements(), size));
  }
  const std::string type(name_of(step.graph.tensor(packed->tensor).dtype));
  warnings.push_back("each rank loads the whole model (" + format_bytes(whole) +
                     ") before FSDP2 cuts it; the plan takes bnb_4bit_quant_storage=" + type +
                     ": with uint8, the default, Accelerate leaves 4-bit weights whole");
}

// Of many ranks a dimension 0 is padded to as many: adapters' rank is one.
void warn_of_padding(const RankStep& step, std::vector<std::string>& warnings) {
  constexpr std::int64_t kNoticed = 2;
  std::int64_t padded = 0, bytes = 0;
  for (const FsdpUnit& unit : step.units) {
    if (unit.of_experts) continue;
    padded = checked_add(padded, reduced_bytes(step.graph, step.schedule(), unit, step.strategy));
    for (const std::int32_t i : unit.parameters) {
      const ParameterTensor& p = step.graph.parameters[index(i)];
      const DType type = step.strategy.reduce_type.value_or(step.graph.tensor(p.tensor).dtype);
      if (gradient_place(step.schedule(), i) != kNone)
        bytes = checked_add(bytes, step.graph.tensor(p.tensor).shape.elements() * size_of(type));
    }
  }
  if (padded / kNoticed < bytes) return;
  warnings.push_back("FSDP2 pads what it cuts to a multiple of the " + format_count(step.strategy.shards()) +
                     " ranks: " + format_bytes(padded) + " are reduced for " + format_bytes(bytes) + " of gradients");
}

// A rank that has tokens in a row attends to all before them, and all wait for the last one in every layer.
void tell_context(const RankStep& step, Report& report) {
  const std::int64_t ranks = step.strategy.context;
  const bool of_states = !step.stages.empty() && !step.stages.front().first;
  const bool part = of_states || step.strategy.is_megatron();  // of a sample is what the graph is given
  const std::int64_t parts = !part                                        ? 1
                             : of_states && step.run.tensor_plan.sequence ? ranks * step.run.tensor_ranks
                                                                          : ranks;
  const std::int64_t all = step.graph.tensor(step.graph.inputs.front()).shape[1] * parts;
  report.rank->sample_tokens = all;
  if (balances_context(all / ranks)) return;
  const std::int64_t balanced = (all / (2 * ranks) + 1) * 2 * ranks;
  report.warnings.push_back("a part of " + std::to_string(all / ranks) +
                            " tokens cannot be halved, so that ranks have tokens in a row: the last one attends to " +
                            std::to_string(ranks) + " times as many as the first, and all wait for it (--rank " +
                            std::to_string(ranks - 1) + " has its time); --seq " + std::to_string(balanced) +
                            " is balanced");
}

// Of several GPUs: what the rank keeps and sends. --runtime says what is beside the allocator in all, NCCL's buffers
// too.
void tell_rank(const Plan& plan, const Topology& topology, Report& report) {
  const RankStep& step = plan.step;
  RankShare& rank = report.rank.emplace();
  rank.strategy = step.strategy;
  rank.states = step.strategy.shares() ? step.states : rank_states(step.graph, step.run, 0, step.strategy);
  rank.communication = communication(step, topology);
  if (step.strategy.context > 1) tell_context(step, report);
  if (!step.pipeline.empty()) rank.stage = step.part;
  if (step.part.copies_embedding)
    report.warnings.emplace_back(
        "the head is tied to the embedding, which is another stage's: each has a copy, and what adds up their "
        "gradients is not planned");
  if (!step.run.context_bytes) rank.nccl = nccl_buffers(step.strategy, step.gpu, step.run.pytorch);
  if (step.strategy.data != DataParallel::fsdp) return;
  rank.wrapped = std::ssize(step.graph.wrapped);
  warn_of_loading(step, report.warnings);
  if (!step.strategy.flat) warn_of_padding(step, report.warnings);
  if (step.strategy.experts > 1) warn_of_padded_experts(step, report.warnings);
  if (rank.wrapped == 0)
    report.warnings.emplace_back(
        "no block is wrapped by itself, so FSDP gathers all parameters at once and keeps them until backward ends: "
        "the spec repeats no block, or lists none that --wrap could name");
}

// What ranks share of bitsandbytes was recorded of 4-bit weights that FSDP2 cuts, beside adapters; the rest is whole on
// each GPU.
void refuse_shards(const RunConfig& run, const Strategy& strategy) {
  if (strategy.data == DataParallel::none || strategy.data == DataParallel::ddp) return;
  const bool cuts_4bit = strategy.data == DataParallel::fsdp && !strategy.flat && is_bitsandbytes_4bit(run.weights) &&
                         run.lora.has_value();
  const char* const what = is_bitsandbytes(run.weights) && !cuts_4bit ? "weights that bitsandbytes stores"
                           : run.optimizer.bitsandbytes.has_value()   ? "bitsandbytes' optimizers"
                           : run.optimizer.recorder                   ? "the state of an optimizer that was recorded"
                                                                      : nullptr;
  if (what == nullptr) return;
  throw Error("how ranks share " + std::string(what) + " is not planned", ErrorKind::usage)
      .help(
          "--zero ddp keeps all of them on each GPU, and --zero fsdp shares nf4 and fp4 beside --lora; gpuplan shadow "
          "--gpus N runs a script");
}

}  // namespace

void Plan::move_to(const Gpu* gpu) {
  step.gpu = gpu != nullptr ? *gpu : assumed_gpu();
  names_gpu = gpu != nullptr;
}

void Plan::replay_step() {
  replay = gpuplan::replay_step(step);
  // Of a stage several micro-batches are alive at once.
  if (step.pipeline.empty()) live_bytes = live_bytes_of(step);
}

Plan make_plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu, const Strategy& strategy,
               bool calls) {
  if (gpu != nullptr) refuse_arithmetic(run, *gpu);
  refuse_shards(run, strategy);
  Plan plan;
  plan.model = &model;
  plan.names_gpu = gpu != nullptr;
  plan.step = make_step(model, catalog, run, gpu != nullptr ? *gpu : assumed_gpu(), strategy, calls);
  plan.replay_step();
  return plan;
}

std::optional<LimitedReplay> replay_in_gpu(const Plan& plan) {
  const RankStep& step = plan.step;
  if (!plan.names_gpu || step.gpu.memory_bytes <= 0) return std::nullopt;
  if (step.run.allocator != AllocatorKind::caching) return std::nullopt;
  const std::int64_t usable = usable_bytes(step.gpu), context = context_bytes(step.run, step.gpu, step.strategy);
  if (usable <= 0 || checked_add(plan.replay.peak.reserved_bytes, context) <= usable) return std::nullopt;
  return replay_within(std::max<std::int64_t>(usable - context, 0), step);
}

Report report_of(const Plan& plan, const Topology& topology) {
  const RankStep& step = plan.step;
  const Strategy& strategy = step.strategy;
  Report r = make_report(plan);
  r.warnings = warnings_about(*plan.model, step.graph, step.run, plan.named_gpu());
  if (step.run.kernels == Kernels::liger && (strategy.shares() || step.run.offload_saved))
    r.warnings.emplace_back("Liger's kernels were compared with PyTorch on one GPU, without --offload saved");
  if (strategy.shares() || strategy.context > 1) tell_rank(plan, topology, r);
  if (by_definition(step.run, strategy)) {
    share_states(r, step.states);
  } else {
    r.at_most = at_most(plan, r);
    r.phases = plan.replay.phases;
    r.timeline = plan.replay.timeline;
    if (const auto limited = replay_in_gpu(plan)) r.within_memory = within_memory(step, *limited);
  }
  r.assumptions = assumptions_of(plan, r);
  if (strategy.data == DataParallel::fsdp) {
    r.bytes.parameters = step.states.parameters;
    r.bytes.gradients = step.states.gradients;
  }
  return r;
}

Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu) {
  return report_of(make_plan(model, catalog, run, gpu));
}

}  // namespace gpuplan
