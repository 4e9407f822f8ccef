// What a step of data parallelism sends, and how long the links take for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

// Rows that overlap with computing call by call (transfers.h).
constexpr std::string_view kGradientsRow = "gradients", kForwardGathersRow = "parameters, forward",
                           kBackwardGathersRow = "parameters, backward", kReplicasRow = "gradients of replicas";
// The same of experts that ranks share.
constexpr std::string_view kGradientsOfExpertsRow = "gradients of experts",
                           kForwardGathersOfExpertsRow = "experts, forward",
                           kBackwardGathersOfExpertsRow = "experts, backward";

struct CommunicationRow {
  /// "gradients", "parameters, forward", "parameters, backward", "gradients of replicas", "buffers", "activations,
  /// forward", "results of lm_head", "tokens to experts, forward" and backward, "keys and values, forward" and
  /// backward, "gradients of keys and values", and those below.
  std::string_view what;
  Collective collective = Collective::all_reduce;
  std::int64_t bytes = 0;         // of the whole tensors, a step
  std::int64_t sent_bytes = 0;    // by one rank, and as many received
  std::optional<double> seconds;  // of all of them one after another; nothing where the link is not known
  // What it runs beside, on a stream of its own, where transfers() does not say when: all along the phase but for
  // `alone_bytes`, which come before or after everything that could hide them. Nothing: the GPU waits for all of it.
  std::optional<Phase> beside = std::nullopt;
  std::int64_t alone_bytes = 0;
  // What the GPU copies for it, read and written once each, by so many kernels; transfers() says it where it says when.
  std::int64_t copied_bytes = 0, copies = 0;
};
std::string_view name_of(Collective collective);

/// Adds to the row of the same name, where there is one.
void add_row(std::vector<CommunicationRow>& rows, const CommunicationRow& row);

/// How often FSDP2 gathers in a step: the root, and the other units for forwards and for backwards.
struct GatherCounts {
  std::int64_t root = 0, forward = 0, backward = 0;
};
/// Of one of the stages of a pipeline's rank. It keeps what a backward has gathered (set_reshard_after_backward(False))
/// until a forward has given it back.
GatherCounts gather_counts(const Strategy& strategy, std::span<const PipelineAction> actions, std::int32_t stage);

/// Rows of a step. DDP, also with ZeRO-1, reduces once a step (with no_sync() for all micro-batches but the last) and
/// sends buffers once, before the first micro-batch: the forward after one under no_sync() does not
/// (distributed.py, require_forward_param_sync). ZeRO-2, whose ranks keep a part of the gradients only, reduces those
/// of every micro-batch; FSDP2 and ZeRO-3 gather and reduce with every micro-batch (Strategy::reduces_last), and HSDP
/// adds up what a rank has of the reduction over its replicas. ZeRO-1 (ZeroRedundancyOptimizer)
/// sends each updated parameter from its owner. `units`: FSDP2's, which reduces the gradients that `schedule`, of the
/// last micro-batch, has (_fsdp_param_group.py, post_backward). `counts`: null where each micro-batch gathers.
///
/// What hides it, and what is copied: of DDP and FSDP2 transfers.h says so call by call. ZeRO-2 and 3 are DeepSpeed's
/// with the defaults of its runtime/zero/config.py, files of 0.19:
/// - Stage 2 does not overlap, unless overlap_comm says so; stage 1 reduces once a step. Each gradient is copied into a
///   bucket of up to 5e8 elements (reduce_bucket_size), which is divided, made flat and reduced to all
///   (use_multi_rank_bucket_allreduce); the rank's part goes back into the bucket and from there into a buffer of its
///   own (stage_1_and_2.py, average_tensor, allreduce_and_copy_with_multiple_ranks, copy_grads_in_partition).
/// - Stage 3 overlaps; parameters are gathered up to 5e7 elements ahead (stage3_prefetch_bucket_size), each put
/// together
///   by a copy (partition_parameters.py, AllGatherCoalescedHandle). Those of up to 1e5 elements
///   (stage3_param_persistence_threshold) are whole all the time, gathered after the step. One that is used again
///   within 1e9 elements (stage3_max_reuse_distance), which is through the rest of forward and back, is kept for
///   backward (partitioned_param_coordinator.py, __params_to_release). Gradients are copied into buckets as above, and
///   reduced in parts.
/// Buffers and ZeRO-1's parameters are waited for, and so are the collectives of tensor parallelism, whose results the
/// next operation reads.
std::vector<CommunicationRow> communication(const Graph& graph, const Schedule& schedule,
                                            std::span<const FsdpUnit> units, const Strategy& strategy,
                                            std::int64_t micro_batches, const Topology& topology,
                                            const GatherCounts* counts = nullptr);

}  // namespace gpuplan
