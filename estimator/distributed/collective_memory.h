// Memory of data parallelism's collectives: buckets, gathered parameters and reduction buffers, which are allocated in
// addition to the operations of a step. estimator/distributed/ creates it, the training loop runs it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// One thing that happens to memory. `slot` names a block, which may live across steps.
struct CollectiveEvent {
  enum class Kind : std::uint8_t { allocate, free, free_buffer };
  Kind kind = Kind::allocate;
  std::int32_t slot = 0;                  // free_buffer: a BufferId of the schedule
  std::int64_t bytes = 0;                 // of allocate, unrounded
  Category category = Category::scratch;  // of allocate
  std::int32_t stream = 0;                // of allocate: 0 is the current stream
};

/// Events that run before a step of the schedule, in `phase`; where `step` is the end of the phase, after its last one.
struct CollectivePoint {
  Phase phase = Phase::forward;
  std::int32_t step = 0;
  Range events;  // of CollectiveMemory::events
};

/// Which micro-batch of a step; one alone is the first.
enum class MicroBatch : std::uint8_t { first, middle, last };
constexpr std::size_t kMicroBatchKinds = 3;

/// Slots that are free already may be freed again: a point then does nothing.
struct CollectiveMemory {
  std::vector<CollectiveEvent> events;
  /// While the model is made: when so many of Graph::model_storage are there. Ascending.
  std::vector<CollectivePoint> construction;
  /// Before and after the optimizer of a step.
  Range before_optimizer, after_optimizer;
  /// At the beginning of the second forward (DDP makes its buckets anew then).
  Range second_forward;
  /// With the gradients, in zero_grad.
  Range zero_grad;
  /// Of every step, in the order in which they come; by MicroBatch.
  std::array<std::vector<CollectivePoint>, kMicroBatchKinds> points;
  std::int32_t slots = 0;

  Range since(std::size_t begin) const {
    return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(events.size())};
  }
};

}  // namespace gpuplan
