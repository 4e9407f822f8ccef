// The collectives of a data-parallel step: between which operations of the schedule each is called, and what the GPU
// copies for it. estimator/time/rank_time.h simulates their timing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One call of the host, before a step of the schedule; their number: after the last one.
struct Transfer {
  enum class Kind : std::uint8_t {
    send,  // a collective begins as soon as the link is free, on a stream of its own
    wait   // the GPU's operations wait until a collective is done
  };
  Kind kind = Kind::send;
  std::int32_t step = 0;
  std::string_view row;             // send: CommunicationRow::what
  std::int64_t bytes = 0;           // send: of the whole tensors
  std::int32_t of = kNone;          // wait: for this send, a place in the list
  bool after_operations = false;    // send: not before the GPU has done what it was given
  std::int32_t after_copy = kNone;  // send: not before this wait's copies are done, a place in the list
  // Into the collective's buffer before it is sent, or out of it after it was waited for: read and written once, by so
  // many kernels.
  std::int64_t copied_bytes = 0;
  std::int32_t copies = 0;
};

/// Of one micro-batch, the last one or, of FSDP2, one of those before (`last` is false), in the order of the host's
/// calls. Empty for what does not overlap call by call: none, and DeepSpeed's stages. `units`: FSDP2's.
///
/// DDP (torch/csrc/distributed/c10d/reducer.cpp): each gradient is multiplied by 1 / n into its bucket
/// (mark_variable_ready_dense); a bucket goes when its gradients and those of the buckets before are there; after
/// backward each is waited for and copied back, gradient by gradient, but with gradient_as_bucket_view
/// (finalize_bucket_dense).
///
/// FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py of 2.15): a unit's parameters are gathered where its
/// forward is called, which the host does while the GPU runs the unit before, once the copies out of the gathered
/// buffer before that one are done (wait_for_unshard); in backward, where the unit after it begins
/// (_backward_prefetch). Its gradients are reduced when its backward ends, once the unit's before them are
/// (post_backward: one buffer of reduce-scatters is in flight).
std::vector<Transfer> transfers(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                                const Strategy& strategy, bool last = true);

}  // namespace gpuplan
