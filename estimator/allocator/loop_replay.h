// Schedule -> LoopReplay: the steps of a training loop replayed through an allocator, allocation by allocation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// Where the reported step stood when allocated bytes were highest.
struct PeakPlace {
  Phase phase = Phase::start;
  std::int32_t step = kNone;                            // of Schedule::steps; kNone outside of them (optimizer, start)
  std::size_t pass = 0;                                 // of which schedule
  std::array<std::int64_t, kCategories> by_category{};  // charged bytes alive
};

struct LoopReplay {
  std::vector<PhaseRow> phases;  // of the first step, then of the steady one
  Reading peak;                  // of the reported step, each figure by itself
  PeakPlace at;
  std::vector<TimelinePoint> timeline;      // of the reported step
  std::vector<std::int64_t> charged_bytes;  // by buffer, in the reported step; 0: not allocated
  std::int64_t segments = 0, inactive_split_bytes = 0, allocations = 0;
};

/// The outcome on a device with `bytes` for segments: when memory runs out, the allocator releases its cache to the
/// device and retries before it raises torch.OutOfMemoryError.
struct LimitedReplay {
  std::int64_t retries = 0;    // caches given back, from construction to the end of the third step
  bool out_of_memory = false;  // then what follows says of which allocation
  OutOfMemory reading;
  int training_step = -1;  // 0 is the first; -1: while the model and the batch are made
  Phase phase = Phase::start;
  std::int32_t step = kNone;  // of Schedule::steps; kNone outside of them
  std::size_t pass = 0;
};

/// One of a loop's steps that differ.
struct StepReading {
  Reading peak;  // each figure by itself
  Reading live;  // when it has ended
  PeakPlace at;
};

/// Replays model construction and some steps (the third is steady) under run.allocator and run.alloc_conf, with what
/// the collectives of several GPUs allocate besides. Throws Error when sizes overflow.
LoopReplay replay_step(const RankStep& step);

/// The same under PyTorch's caching allocator, with `bytes` for its segments.
LimitedReplay replay_within(std::int64_t bytes, const RankStep& step);

/// What training step i runs: a step of the same model, run and optimizer, of any batch.
using NextStep = std::function<std::shared_ptr<const RankStep>(int)>;
/// Called when training step i has ended.
using StepTold = std::function<void(int, const StepReading&)>;
/// A loop of so many steps whose batches differ, each made on the device beside the last one, with `bytes` for
/// segments. One GPU, and PyTorch's caching allocator.
LimitedReplay replay_each_within(std::int64_t bytes, const RunConfig& run, int steps, const NextStep& next,
                                 const StepTold& told);

}  // namespace gpuplan
