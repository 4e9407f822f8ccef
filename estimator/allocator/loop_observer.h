// LoopObserver: the callbacks that a training loop makes for every block, kernel and phase, in order. Executors
// implement them to run the loop on a device.
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

struct RunningLoop;

class LoopObserver {
 public:
  virtual ~LoopObserver() = default;
  /// The loop begins; what it tells of its position holds at every call that follows.
  virtual void begins(const RunningLoop& /*loop*/) {}
  /// Whether scratch that goes before anything else happens is told, too.
  virtual bool follows_scratch() const { return false; }
  /// A block of so many bytes, as the allocator charges them and as they were asked for.
  virtual void allocated(std::uint64_t address, std::int64_t bytes, std::int64_t requested_bytes,
                         Category category) = 0;
  /// Before it goes back to the allocator.
  virtual void releasing(std::uint64_t address, std::int64_t bytes) = 0;
  /// The buffer is at this address from now on; 0 if it has no bytes.
  virtual void placed(BufferId buffer, std::uint64_t address) = 0;
  /// A constant that the first step makes has been placed; a kernel reads it next.
  virtual void constant_is_made(TensorId constant) = 0;
  /// Parameters, buffers and the first batch have been allocated.
  virtual void model_is_made() = 0;
  /// Forward, loss and backward of micro-batch `number` begin. Called for a single micro-batch, too.
  virtual void micro_batch(std::int64_t number) = 0;
  /// A step with a kernel: its results and its scratch are allocated.
  virtual void run(std::size_t pass, std::int32_t step, std::span<const PlacedScratch> scratch) = 0;
  /// Optimizer states, in the order in which the optimizer makes them.
  virtual void state(std::uint64_t address, std::int64_t bytes) = 0;
  /// Any other tensor that a part of the optimizer makes; `slot` as in its program.
  virtual void optimizer_tensor(OptimizerPart part, std::int32_t slot, std::uint64_t address) = 0;
  /// The fp32 copy of a half-precision gradient has been allocated; the half-precision one is freed next. Called in the
  /// order of the half-precision members of Schedule::with_gradient.
  virtual void fp32_gradient(std::uint64_t address) = 0;
  /// A part of the optimizer has everything that it computes with, before its last tensors go. parameter: which member
  /// of Schedule::with_gradient is stepped in backward; kNone: all of them.
  virtual void optimizer(OptimizerPart part, int training_step, std::int32_t parameter) = 0;
  /// training_step counts from 0. Forward, loss and backward end once a micro-batch.
  virtual void phase_ended(int training_step, Phase phase) = 0;
};

}  // namespace gpuplan
