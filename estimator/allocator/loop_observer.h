// Who follows a training loop on a device: told of every block, kernel and phase in the order in which they happen.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// An allocation of a step's scratch program, in order; address 0 for one that was freed before the step runs.
struct PlacedScratch {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

enum class OptimizerPart : std::uint8_t { construction, scaler, clip, step };

class LoopObserver {
 public:
  virtual ~LoopObserver() = default;
  /// A block of so many bytes, rounded as the allocator charges them.
  virtual void allocated(std::uint64_t address, std::int64_t bytes) = 0;
  /// Before it goes back to the allocator.
  virtual void releasing(std::uint64_t address, std::int64_t bytes) = 0;
  /// The buffer lies there from now on; 0 where it has no bytes.
  virtual void placed(BufferId buffer, std::uint64_t address) = 0;
  /// Parameters, buffers and the first batch are there.
  virtual void model_is_made() = 0;
  /// A pass begins: forward, loss and backward of this micro-batch, counted from 0; also where there is only one.
  virtual void micro_batch(std::int64_t number) = 0;
  /// A step with a kernel: its results and its scratch are allocated.
  virtual void run(std::size_t pass, std::int32_t step, std::span<const PlacedScratch> scratch) = 0;
  /// Optimizer states, in the order in which the optimizer makes them.
  virtual void state(std::uint64_t address, std::int64_t bytes) = 0;
  /// Any other tensor that a part of the optimizer makes; `slot` as in its program.
  virtual void optimizer_tensor(OptimizerPart part, std::int32_t slot, std::uint64_t address) = 0;
  /// The fp32 copy of a gradient in half precision, which goes next, is there: of the next member of
  /// Schedule::with_gradient in half precision.
  virtual void fp32_gradient(std::uint64_t address) = 0;
  /// A part of the optimizer has everything that it computes with, before its last tensors go. parameter: which member
  /// of Schedule::with_gradient is stepped in backward; kNone: all of them.
  virtual void optimizer(OptimizerPart part, int training_step, std::int32_t parameter) = 0;
  /// training_step counts from 0. Forward, loss and backward end once a micro-batch.
  virtual void phase_ended(int training_step, Phase phase) = 0;
};

}  // namespace gpuplan
