// What a step of data parallelism sends, and how long the links take for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/parallel/collectives.h"
#include "estimator/parallel/fsdp_units.h"
#include "estimator/parallel/strategy.h"
#include "estimator/phase.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

// Rows that overlap with computing call by call (transfers.h).
constexpr std::string_view kGradientsRow = "gradients", kForwardGathersRow = "parameters, forward",
                           kBackwardGathersRow = "parameters, backward";

struct CommunicationRow {
  std::string_view what;  // "gradients", "parameters, forward", "parameters, backward", "buffers"
  Collective collective = Collective::all_reduce;
  std::int64_t bytes = 0;         // of the whole tensors, a step
  std::int64_t sent_bytes = 0;    // by one rank, and as many received
  std::optional<double> seconds;  // of all of them one after another; nothing where the link is not known
  // What it runs beside, on a stream of its own, where transfers() does not say when: all along the phase but for
  // `alone_bytes`, which come before or after everything that could hide them. Nothing: the GPU waits for all of it.
  std::optional<Phase> beside = std::nullopt;
  std::int64_t alone_bytes = 0;
};
std::string_view name_of(Collective collective);

/// Rows of a step. DDP, also with ZeRO-1, reduces once a step (with no_sync() for all micro-batches but the last) and
/// sends buffers once, before the first micro-batch: the forward after one under no_sync() does not
/// (distributed.py, require_forward_param_sync). ZeRO-2, whose ranks keep a part of the gradients only, reduces those
/// of every micro-batch; FSDP2 and ZeRO-3 gather and reduce with every micro-batch. ZeRO-1 (ZeroRedundancyOptimizer)
/// sends each updated parameter from its owner. `units`: FSDP2's, which reduces the gradients that `schedule`, of the
/// last micro-batch, has (_fsdp_param_group.py, post_backward).
///
/// What hides it: of DDP and FSDP2 transfers.h says so call by call. DeepSpeed's stage 2 does not overlap by default,
/// stage 3 does (overlap_comm), in buckets of 5e7 elements that are gathered ahead and of 5e8
/// that are reduced (stage3_prefetch_bucket_size, reduce_bucket_size). Buffers and ZeRO-1's parameters are waited for.
std::vector<CommunicationRow> communication(const Graph& graph, const Schedule& schedule,
                                            std::span<const FsdpUnit> units, const Strategy& strategy,
                                            std::int64_t micro_batches, const Topology& topology);

}  // namespace gpuplan
