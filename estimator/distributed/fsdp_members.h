// FSDP2's units as blocks of memory: what each parameter's shard, its gathered copy and its gradient take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Slots are the writer's.
struct FsdpMember {
  std::int32_t parameter;     // of Graph::parameters
  std::int64_t stored_bytes;  // of its padded shard
  std::int64_t shard_bytes;   // the same in the type that it is gathered in
  std::int32_t whole;         // slot of its gathered copy
  std::int32_t there, cast;   // slots of a shard that comes from the host, and of that in the type of the gather
  std::int32_t summed;        // slot of its gradient over micro-batches, in the type of the reduction
  std::int64_t summed_bytes;  // of that, whole
  /// Of the part that the rank takes of a gradient once that is summed over the ranks of tensor parallelism, which is
  /// in the gradient's own type (FSDPParam._get_grad_inner_tensor).
  std::int64_t scattered_bytes = 0;
  std::int64_t gradient_bytes = 0;  // of a shard of the gradient as it is reduced
  BufferId gradient = kNone;        // none where it is frozen
  bool is_converted = false;        // it is gathered in another type than it is stored in
  bool is_partial = false;          // its gradient is summed over the ranks of tensor parallelism first
  bool is_of_norm = false;          // and it is whole on each of them, so that it comes in the reduction's type
  bool sums_converted = false;      // its gradient is reduced in another type than it comes in
};

/// One of FSDP2's units.
struct FsdpBlocks {
  const FsdpUnit* of;
  bool reshards;
  std::int64_t ranks;  // that share it
  std::vector<FsdpMember> members;
  std::int64_t shard_bytes = 0;                 // all members', as they are gathered
  std::int64_t reduced_bytes = 0;               // of those with a gradient, as they are reduced
  std::int64_t kept_bytes = 0;                  // of the same, as they are stored
  std::int32_t gathered = 0, reduced_from = 0;  // slots
  std::int32_t reduced = 0, converted = 0;      // of the gradients that are kept, in either type
  std::int32_t more = 0, more_converted = 0;    // of those that are added to them
  bool converts_back = false;                   // gradients are reduced in another type than is kept
};

/// `units` must outlive the result.
std::vector<FsdpBlocks> fsdp_blocks(const Graph& graph, const Schedule& schedule, std::span<const FsdpUnit> units,
                                    const Strategy& strategy, const RunConfig& run, CollectiveWriter& writer);

}  // namespace gpuplan
