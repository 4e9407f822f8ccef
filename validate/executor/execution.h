// Runs the training loop of a plan on a device: the allocator that the estimate simulates with places every block in
// the device's own memory, and each step's kernel runs there when PyTorch would run it. With poison whatever is
// released holds NaN from then on, so a tensor freed too early changes the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimator/allocator/loop_replay.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/distributed/rank_step.h"
#include "validate/executor/device.h"
#include "validate/executor/watcher.h"

namespace gpuplan {

struct ExecutionOptions {
  bool poison = false;            // fills blocks with NaN when they are allocated and when they are released
  bool keeps_everything = false;  // releases nothing: what a sufficient plan is compared with
  bool collects = false;          // ExecutionResult::weights, gradients and output
  bool repeatable = false;        // Kernel::repeatable
  bool reads_losses = true;       // and what a GradScaler found: waits for the device in every step
  bool reads_memory = true;       // ExecutionResult::readings
  int checked_steps = 0;          // so many training steps wait for each kernel, so that one that fails is named
  int steps = 3;                  // training steps, three or more
  std::uint64_t seed = 1;         // of weights, inputs and dropout
  ExecutionWatcher* watcher = nullptr;
};

/// What the device says when a phase has ended.
struct DeviceReading {
  int training_step = 0;         // from 0; -1: before the first
  std::int64_t micro_batch = 0;  // from 0
  Phase phase = Phase::start;
  DeviceMemory memory;
};

struct ExecutionResult {
  LoopReplay replay;                    // as the allocator saw it; empty where memory ran out
  LimitedReplay within;                 // whether it did, and where
  std::vector<DeviceReading> readings;  // one a phase of each training step; of forward to backward one a micro-batch
  std::vector<double> losses;           // one a training step, where they are read; the sum of its micro-batches'
  std::vector<double> scales;           // the GradScaler's after each training step, where losses are read
  int skipped_steps = 0;                // for gradients that were not finite
  /// After the last step: of each member of Graph::parameters its bytes, of each of Schedule::with_gradient those of
  /// the gradient that the optimizer was given, and of an inference those of its output; gaps are left out.
  std::vector<std::vector<std::byte>> weights, gradients;
  std::vector<std::byte> output;
};

/// Why the execution cannot be run there, each reason once; empty where it can. Loops that no device executes
/// (offloading, generation, PyTorch 1.13's) are among the reasons.
std::vector<std::string> refusals(const Device& device, const RankStep& rank);

/// Throws what the device and the watcher throw; for a kernel, with its name, its layer and its shapes in front. What
/// is left in the device's memory is the caller's to free: Device::release_all().
ExecutionResult run(Device& device, const RankStep& rank, const ExecutionOptions& options);

}  // namespace gpuplan
