// The training loop of a plan, event by event: model construction and some steps, each of forward, loss, backward,
// clip and optimizer, under an allocator. The last of three or more steps is steady: reserved memory has settled.
// Estimating runs it over segments that are only arithmetic, validating over a device's.
#pragma once

#include "estimator/allocator/block_allocator.h"
#include "estimator/allocator/loop_observer.h"
#include "estimator/allocator/loop_replay.h"
#include "estimator/distributed/rank_step.h"

namespace gpuplan {

constexpr int kLoopSteps = 3;  // the third is steady

/// What becomes of it where the allocator may have no room. `whole`: what the loop takes, where there is room for it.
LimitedReplay replay_loop(BlockAllocator& allocator, const RankStep& rank, LoopObserver* observer = nullptr,
                          int steps = kLoopSteps, LoopReplay* whole = nullptr);

}  // namespace gpuplan
