#include "estimator/distributed/communication.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/megatron_memory.h"
#include "estimator/distributed/unused_parameters.h"
#include "estimator/graph/tensor_style.h"

namespace gpuplan {
namespace {

// DeepSpeed's defaults, elements.
constexpr std::int64_t kPrefetchedElements = 50'000'000, kReducedElements = 500'000'000, kPersistentElements = 100'000,
                       kReuseElements = 1'000'000'000;

// See CommunicationRow.
struct Hidden {
  std::optional<Phase> beside;
  std::int64_t alone_bytes = 0;
  std::int64_t copied_bytes = 0, copies = 0;
};

// Of DeepSpeed's stage 3, bytes and tensors.
struct Gathered {
  std::int64_t bytes = 0, tensors = 0;
  void add(std::int64_t more) {
    bytes += more;
    tensors += 1;
  }
};
struct StageThree {
  Gathered forward, backward, small;
};

StageThree gathers_of(const Graph& graph) {
  StageThree gathers;
  std::int64_t behind = 0;  // elements between the parameter and the end of forward
  for (std::size_t i = graph.parameters.size(); i-- > 0;) {
    const Tensor& t = graph.tensor(graph.parameters[i].tensor);
    const std::int64_t elements = t.shape.elements(), bytes = elements * size_of(t.dtype);
    if (elements <= kPersistentElements) {
      gathers.small.add(bytes);
    } else {
      gathers.forward.add(bytes);
      if (2 * behind >= kReuseElements) gathers.backward.add(bytes);
    }
    behind += elements;
  }
  return gathers;
}

Gathered gathered_gradients(const Graph& graph) {
  Gathered all;
  for (const ParameterTensor& p : graph.parameters)
    if (p.trainable) all.add(graph.tensor(p.tensor).shape.elements() * size_of(graph.tensor(p.tensor).dtype));
  return all;
}

// Of collectives that are operations of the schedule, forward and backward: tensor parallelism's, with sequence
// parallelism of tokens, of tokens that go to experts and back (passed), of keys and values that a ring of context
// parallelism gathers, and of their gradients (sent).
struct OperationBytes {
  struct Both {
    std::int64_t forward = 0, backward = 0;
    std::int64_t forward_calls = 0, backward_calls = 0;
  };
  Both reduced, results, tokens, scattered, gathered, passed, sent;
};

// Tensor parallelism gathers the results of lm_head and what experts that others share return, sequence parallelism
// tokens, also those that lm_head is given; a ring gathers keys and values, or sends them. `computed`: lm_head has run
// its product.
OperationBytes::Both* bytes_of(const ScheduledOp& step, const Graph& graph, const TensorPlan& plan, bool computed,
                               OperationBytes& bytes) {
  const bool of_experts = step.layer != kNone && graph.layers[index(step.layer)].dispatched;
  switch (step.op) {
    case Operator::all_reduce: return &bytes.reduced;
    case Operator::all_to_all: return of_experts ? &bytes.passed : &bytes.sent;
    case Operator::reduce_scatter: return &bytes.scattered;
    case Operator::all_gather: break;
    default: return nullptr;
  }
  if (of_experts) return &bytes.tokens;
  if (step.layer == kNone) return &bytes.gathered;
  const Layer& layer = graph.layers[index(step.layer)];
  const TensorStyle style = tensor_style_of(layer.name, plan.sequence);
  if (style == TensorStyle::head && (computed || !plan.sequence)) return &bytes.results;
  const bool of_tokens = plan.sequence && (style != TensorStyle::whole || layer.type == "GatherTokens");
  return of_tokens ? &bytes.tokens : &bytes.gathered;
}

OperationBytes operation_bytes(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  OperationBytes bytes;
  bool computed = false;
  for (const ScheduledOp& step : schedule.ops) {
    if (step.product && step.layer != kNone)
      computed = tensor_style_of(graph.layers[index(step.layer)].name, false) == TensorStyle::head;
    const bool of_megatron = strategy.megatron.sequence_parallel && step.op == Operator::all_gather;
    OperationBytes::Both* const of =
        of_megatron ? &bytes.tokens : bytes_of(step, graph, strategy.tensor_plan, computed, bytes);
    if (of == nullptr) continue;
    const bool in_place = step.allocates.begin == step.allocates.end;
    const BufferId b =
        in_place ? schedule.reads[index(step.reads.begin)] : schedule.allocated[index(step.allocates.begin)];
    const bool backward = step.phase == Phase::backward && !step.recompute;
    (backward ? of->backward_calls : of->forward_calls) += 1;
    (backward ? of->backward : of->forward) +=
        schedule.buffers[index(b)].bytes * (step.op == Operator::reduce_scatter ? strategy.tensor : 1);
  }
  return bytes;
}

// Of FSDP2's units, whole: those of experts, or the others.
struct UnitBytes {
  std::int64_t root = 0, forward = 0, backward = 0, reduced = 0;
  std::int64_t units = 0, units_backward = 0;
};

UnitBytes unit_bytes(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                     const Strategy& strategy, bool of_experts) {
  UnitBytes sum;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].of_experts != of_experts) continue;
    const std::int64_t whole = gathered_bytes(graph, units[u], strategy);
    if (u == 0) sum.root = whole;
    sum.units += 1;
    sum.forward += whole;
    const bool again = u == 0 ? strategy.reshards_root : strategy.reshards(u, units.size());
    if (again && (u == 0 || units[u].runs_backward())) sum.backward += whole, sum.units_backward += 1;
    sum.reduced += reduced_bytes(graph, schedule, units[u], strategy);
  }
  return sum;
}

std::int64_t largest_parameter_type(const Graph& graph) {
  std::int64_t size = 0;
  for (const ParameterTensor& p : graph.parameters) size = std::max(size, size_of(graph.tensor(p.tensor).dtype));
  return size;
}

}  // namespace

GatherCounts gather_counts(const Strategy& strategy, std::span<const PipelineAction> actions, std::int32_t stage) {
  using Does = PipelineAction::Kind;
  GatherCounts counts;
  bool whole = false;
  if (!runs_actions(strategy.pipelining.schedule)) counts.root = 1;
  for (const PipelineAction& action : actions) {
    if (action.stage != stage) continue;
    if (action.kind == Does::unshard) counts.root += 1;
    if (action.kind == Does::reshard) whole = false;
    const bool forward = action.kind == Does::forward || action.kind == Does::unshard;
    if (!forward && action.kind != Does::backward) continue;
    if (!whole) (forward ? counts.forward : counts.backward) += 1;
    whole = action.kind != Does::forward || !strategy.reshard_after_forward;
  }
  return counts;
}

void add_row(std::vector<CommunicationRow>& rows, const CommunicationRow& row) {
  const auto same = std::ranges::find(rows, row.what, &CommunicationRow::what);
  if (same == rows.end()) return rows.push_back(row);
  const auto add = [](std::int64_t& to, std::int64_t more) { to = checked_add(to, more); };
  add(same->bytes, row.bytes);
  add(same->sent_bytes, row.sent_bytes);
  add(same->alone_bytes, row.alone_bytes);
  add(same->copied_bytes, row.copied_bytes);
  add(same->copies, row.copies);
  same->seconds = same->seconds && row.seconds ? std::optional(*same->seconds + *row.seconds) : std::nullopt;
}

std::string_view name_of(Collective collective) {
  constexpr std::array<std::string_view, 6> kNames = {"all-reduce", "reduce-scatter", "all-gather",
                                                      "broadcast",  "send",           "all-to-all"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::vector<CommunicationRow> communication(const Graph& graph, const Schedule& schedule,
                                            std::span<const FsdpUnit> units, const Strategy& strategy,
                                            std::int64_t micro_batches, const Topology& topology,
                                            const GatherCounts* counts) {
  const std::int64_t ranks = strategy.shards();
  std::vector<CommunicationRow> rows;
  const auto add_over = [&](std::int64_t group, std::int64_t apart, std::string_view what, Collective collective,
                            std::int64_t bytes, const Hidden& hidden, std::int64_t calls = 1) {
    if (bytes == 0 || group < 2) return;
    const std::optional<Link> link = link_of_group(topology, group, apart);
    CommunicationRow row{what, collective, bytes, 0, std::nullopt, hidden.beside, 0};
    row.alone_bytes = std::min(bytes, hidden.alone_bytes);
    row.copied_bytes = hidden.copied_bytes;
    row.copies = hidden.copies;
    row.sent_bytes = static_cast<std::int64_t>(ring_bytes(collective, static_cast<double>(bytes), group));
    if (link) row.seconds = ring_seconds(collective, static_cast<double>(bytes), group, *link, calls);
    rows.push_back(row);
  };
  const auto add = [&](std::string_view what, Collective collective, std::int64_t bytes, const Hidden& hidden = {},
                       std::int64_t calls = 1) {
    add_over(ranks, strategy.tensor, what, collective, bytes, hidden, calls);
  };
  const std::int64_t gradients = gathered_gradients(graph).bytes, type = largest_parameter_type(graph);
  std::int64_t buffers = 0;
  for (const TensorId t : module_buffers(graph)) buffers += graph.buffers[index(buffer_of(graph, t))].bytes;

  const OperationBytes shared = operation_bytes(graph, schedule, strategy);
  const auto add_shared = [&](std::int64_t group, std::string_view what, Collective collective, std::int64_t bytes,
                              std::int64_t calls) {
    add_over(group, 1, what, collective, bytes * micro_batches, {}, calls * micro_batches);
  };
  const bool of_loss = strategy.tensor_plan.loss;  // the sums that loss parallelism is of
  add_shared(strategy.tensor, "tokens, forward", Collective::all_gather, shared.tokens.forward,
             shared.tokens.forward_calls);
  add_shared(strategy.tensor, "sums of tokens, forward", Collective::reduce_scatter, shared.scattered.forward,
             shared.scattered.forward_calls);
  add_shared(strategy.tensor, "tokens, backward", Collective::all_gather, shared.tokens.backward,
             shared.tokens.backward_calls);
  add_shared(strategy.tensor, "sums of tokens, backward", Collective::reduce_scatter, shared.scattered.backward,
             shared.scattered.backward_calls);
  add_shared(strategy.tensor, of_loss ? "sums of the loss" : "activations, forward", Collective::all_reduce,
             shared.reduced.forward, shared.reduced.forward_calls);
  add_shared(strategy.tensor, "activations, backward", Collective::all_reduce, shared.reduced.backward,
             shared.reduced.backward_calls);
  add_shared(strategy.tensor, "results of lm_head", Collective::all_gather, shared.results.forward,
             shared.results.forward_calls);
  add_shared(strategy.experts, "tokens to experts, forward", Collective::all_to_all, shared.passed.forward,
             shared.passed.forward_calls);
  add_shared(strategy.experts, "tokens to experts, backward", Collective::all_to_all, shared.passed.backward,
             shared.passed.backward_calls);
  const auto add_context = [&](std::string_view what, Collective collective, std::int64_t bytes, std::int64_t calls) {
    add_over(strategy.context, strategy.tensor, what, collective, bytes * micro_batches, {}, calls * micro_batches);
  };
  add_context("keys and values, forward", Collective::all_gather, shared.gathered.forward,
              shared.gathered.forward_calls);
  add_context("keys and values, forward", Collective::send, shared.sent.forward, shared.sent.forward_calls);
  add_context("keys and values, backward", Collective::all_gather, shared.gathered.backward,
              shared.gathered.backward_calls);
  add_context("gradients of keys and values", Collective::send, shared.sent.backward, shared.sent.backward_calls);
  switch (strategy.data) {
    case DataParallel::none: break;
    case DataParallel::megatron: {
      const MegatronBytes whole = megatron_bytes(graph, strategy);
      const bool shares = strategy.megatron.distributed_optimizer;
      Hidden hidden;
      if (strategy.megatron.overlaps_reductions) hidden = {Phase::backward, whole.last_bucket};
      add(kGradientsRow, shares ? Collective::reduce_scatter : Collective::all_reduce, whole.gradients, hidden,
          whole.buckets);
      hidden = {};
      if (strategy.megatron.overlaps_gathers) hidden = {Phase::forward, whole.first_gather};
      if (shares) add("parameters", Collective::all_gather, whole.parameters, hidden, whole.buckets);
      break;
    }
    case DataParallel::ddp:
    case DataParallel::zero1: {
      add("buffers", Collective::broadcast, buffers);
      add(kGradientsRow, Collective::all_reduce, gradients, {}, 1 + gradients / strategy.bucket_cap_bytes);
      if (strategy.find_unused_parameters) add("used-parameter map", Collective::all_reduce, unused_map_bytes(graph));
      if (strategy.data == DataParallel::zero1)
        add("parameters", Collective::broadcast, gradients, {}, gathered_gradients(graph).tensors);
      break;
    }
    case DataParallel::zero2: {
      const std::int64_t tensors = gathered_gradients(graph).tensors,
                         buckets = 1 + gradients / (strategy.reduce_bucket_elements * type),
                         reductions = strategy.partitions_gradients ? micro_batches : 1;
      Hidden copied{std::nullopt, 0, reductions * (3 * gradients + 2 * (gradients / ranks)),
                    reductions * (tensors + 2 * buckets)};
      if (strategy.overlaps_reductions) {  // but for the last bucket
        copied.beside = Phase::backward;
        copied.alone_bytes = std::min(gradients, strategy.reduce_bucket_elements * type) * reductions;
      }
      // It keeps a part of them only. Parameters are gathered by one call (all_gather_into_tensor_dp_groups).
      add(kGradientsRow, Collective::all_reduce, gradients * reductions, copied, buckets * reductions);
      add("parameters", Collective::all_gather, gradients);
      break;
    }
    case DataParallel::zero3: {
      // A tensor a call: what a module has gathered makes room to prefetch as much (parameter_coordinator.h).
      const StageThree gathers = gathers_of(graph);
      const auto whole = [&](const Gathered& g, Phase beside, std::int64_t alone) {
        return Hidden{beside, alone * type * micro_batches, g.bytes * micro_batches, g.tensors * micro_batches};
      };
      add(kForwardGathersRow, Collective::all_gather, gathers.forward.bytes * micro_batches,
          whole(gathers.forward, Phase::forward, kPrefetchedElements), gathers.forward.tensors * micro_batches);
      add(kBackwardGathersRow, Collective::all_gather, gathers.backward.bytes * micro_batches,
          whole(gathers.backward, Phase::backward, 0), gathers.backward.tensors * micro_batches);
      add(kGradientsRow, Collective::reduce_scatter, gradients * micro_batches,
          whole(gathered_gradients(graph), Phase::backward, kReducedElements),
          (1 + gradients / (strategy.reduce_bucket_elements * type)) * micro_batches);
      add("parameters, small", Collective::all_gather, gathers.small.bytes);
      break;
    }
    case DataParallel::fsdp: {
      // FSDP1 under no_sync() keeps what is kept until backward until the last one (_should_free_in_backward).
      const bool kept = strategy.flat && !strategy.reshard_after_forward && strategy.reduces_last;
      const std::int64_t times = kept ? 1 : micro_batches;
      const GatherCounts gathers = counts != nullptr ? *counts : GatherCounts{times, times, times};
      const std::int64_t reductions = strategy.reduces_last ? 1 : micro_batches;
      std::int64_t of_replicas = 0, calls_of_replicas = 0;  // one after each reduce-scatter
      for (const bool of_experts : {false, true}) {
        const UnitBytes sum = unit_bytes(graph, schedule, units, strategy, of_experts);
        const std::int64_t group = strategy.group(of_experts).ranks,
                           apart = of_experts ? strategy.experts : strategy.tensor;
        Hidden hidden;
        // Who unshards a stage asks for all of it before anything else runs.
        const bool at_once = runs_actions(strategy.pipelining.schedule);
        if (strategy.runs_stages()) hidden = {Phase::forward, at_once ? sum.forward : sum.root};
        const auto add_units = [&](std::string_view what, Collective collective, std::int64_t bytes,
                                   std::int64_t calls) {
          add_over(group, apart, what, collective, bytes, hidden, calls);
        };
        add_units(of_experts ? kForwardGathersOfExpertsRow : kForwardGathersRow, Collective::all_gather,
                  sum.root * gathers.root + (sum.forward - sum.root) * gathers.forward, sum.units * gathers.forward);
        if (strategy.runs_stages()) hidden = {Phase::backward, sum.root};
        add_units(of_experts ? kBackwardGathersOfExpertsRow : kBackwardGathersRow, Collective::all_gather,
                  sum.backward * gathers.backward, sum.units_backward * gathers.backward);
        hidden = {};
        add_units(of_experts ? kGradientsOfExpertsRow : kGradientsRow, Collective::reduce_scatter,
                  sum.reduced * reductions, sum.units * reductions);
        of_replicas += sum.reduced / group * reductions;
        calls_of_replicas += sum.units * reductions;
      }
      add_over(strategy.replicas, strategy.tensor * ranks, kReplicasRow, Collective::all_reduce, of_replicas, {},
               calls_of_replicas);
      break;
    }
  }
  return rows;
}

}  // namespace gpuplan
