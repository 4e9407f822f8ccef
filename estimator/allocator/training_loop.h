// The training loop of a plan, event by event: model construction, then steps of forward, loss, backward, clipping and
// optimizer, through an allocator. From the third step on it is in steady state: reserved memory no longer grows. When
// planning, segments are fake addresses; when validating, they are memory of a device.
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

/// The steps of replay_each_within().
LimitedReplay replay_each(BlockAllocator& allocator, int steps, const NextStep& next, const StepTold& told);

}  // namespace gpuplan
