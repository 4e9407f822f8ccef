// Memory of data parallelism's collectives: buckets, gathered parameters and reduction buffers, which are allocated in
// addition to the operations of a step. estimator/distributed/ creates it, the training loop runs it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// One thing that happens to memory. `slot` names a block, which may live across steps. What goes `later` has been used
/// on another stream (Tensor.record_stream): it is no longer allocated, and waits for an event until something is.
/// skip_if_there leaves out the events behind it where the slot's block is there.
struct CollectiveEvent {
  enum class Kind : std::uint8_t {
    allocate,
    free,
    free_later,
    free_buffer,
    free_buffer_later,
    empty_cache,
    skip_if_there
  };
  Kind kind = Kind::allocate;
  std::int32_t slot = 0;                  // free_buffer and free_buffer_later: a BufferId of the schedule
  std::int64_t bytes = 0;                 // of allocate, unrounded; of skip_if_there: how many events
  Category category = Category::scratch;  // of allocate
  std::int32_t stream = 0;                // of allocate: 0 is the current stream
};

/// Events that run before a step of the schedule, in `phase`; where `step` is the end of the phase, after its last one.
struct CollectivePoint {
  Phase phase = Phase::forward;
  std::int32_t step = 0;
  Range events;  // of CollectiveMemory::events
};

/// Which micro-batch of a step; one alone is the first. inferring: that of pruned_graph.h.
enum class MicroBatch : std::uint8_t { first, middle, last, inferring };
constexpr std::size_t kMicroBatchKinds = 4;

/// Of every step, in the order in which they come; by MicroBatch.
using MicroBatchPoints = std::array<std::vector<CollectivePoint>, kMicroBatchKinds>;

/// Slots that are free already may be freed again: a point then does nothing.
struct CollectiveMemory {
  std::vector<CollectiveEvent> events;
  /// While the model is made: when so many of Graph::model_storage are there. Ascending.
  std::vector<CollectivePoint> construction;
  Range first_clip;  // before gradients are clipped for the first time
  /// Before and after the optimizer of a step.
  Range before_optimizer, after_optimizer;
  /// At the beginning of the second forward (DDP makes its buckets anew then).
  Range second_forward;
  /// Of a pipeline's stages, what their actions run: FSDP2 gathers the stage; its first computation after that, and so
  /// that of a stage that is gathered already, has what was gathered copied out; it goes; gradients of all
  /// micro-batches are reduced.
  struct StageEvents {
    Range unshard, copy_out, reshard, reduce;
  };
  std::vector<StageEvents> stages;
  /// Around all actions of a pipeline's step.
  Range before_step, after_step;
  /// With the gradients, in zero_grad.
  Range zero_grad;
  /// Of the first forward of the training and its backward, of the second ..., and the last one is that of all others;
  /// of a pipeline's stages one each.
  std::vector<MicroBatchPoints> rounds{1};
  /// An optimizer that is called once a part of the parameters (OptimizerWork::first_of): around each of the calls.
  struct PartStep {
    Range before, after;
  };
  std::vector<PartStep> part_steps;
  Range saving;  // what saving a checkpoint makes and lets go (RunConfig::save), before RankStep::saving
  bool clips_within_step = false;  // gradients are clipped by what steps the optimizer, DeepSpeed's engine
  std::int32_t slots = 0;

  Range since(std::size_t begin) const {
    return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(events.size())};
  }
};

}  // namespace gpuplan
