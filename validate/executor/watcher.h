// ExecutionWatcher: callbacks during an execution, to measure it, to show progress or to stop it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "estimator/allocator/loop_observer.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// May throw from any of these to end the rank.
class ExecutionWatcher {
 public:
  virtual ~ExecutionWatcher() = default;
  /// Before each tensor that is initialised and before each kernel.
  virtual void tick() {}
  /// A kernel of that schedule's step, counted as Schedule::steps, has been enqueued.
  virtual void kernel_enqueued(std::size_t /*pass*/, std::int32_t /*step*/) {}
  /// So has a part of the optimizer.
  virtual void optimizer_enqueued(OptimizerPart /*part*/) {}
  /// After the execution has read the device's memory, where it does. training_step counts from 0.
  virtual void phase_ended(int /*training_step*/, Phase /*phase*/) {}
};

}  // namespace gpuplan
