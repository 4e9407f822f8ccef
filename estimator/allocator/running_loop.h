// Where a training loop is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "estimator/allocator/loop_observer.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/schedule/phase.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// What the parts of a running loop share. The loop moves on; they look.
struct RunningLoop {
  const RankStep& rank;              // what it runs
  LoopObserver* observer = nullptr;  // or nobody
  int training_step = -1;            // -1: while the model and the batch are made
  Phase phase = Phase::start;
  std::size_t pass = 0;       // of its passes
  std::int32_t step = kNone;  // of that schedule; kNone outside of its steps

  const Schedule& schedule() const { return rank.micro_batches.schedules[pass]; }
};

}  // namespace gpuplan
