// A plan as the snapshot that PyTorch would write of the same run: what shows, compares or replays snapshots does so
// with plans.
#pragma once

#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/plan/timing.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// The history of model construction and three steps. An event's stack is the operation, with the line of the spec, and
/// the modules around it, the innermost first; time is counted in events. Throws Error for other allocators than
/// PyTorch's caching one.
Snapshot snapshot_of(const Plan& plan);

/// What a step takes, as it is modelled.
struct ModelledTimes {
  std::vector<StepWork> works;  // one a step of the last micro-batch's schedule
  double copy_seconds = 0, clip_seconds = 0, optimizer_seconds = 0;
};

/// An operation on the host, which calls it, or on the GPU, which runs it later.
struct TimedOperation {
  std::string name;
  bool on_gpu = false;
  double begin_seconds = 0, seconds = 0;
};

struct TimedSnapshot {
  Snapshot snapshot;  // whose events have the host's time
  std::vector<TimedOperation> operations;
};

/// The same with the times of each step's operations. Making the model takes none.
TimedSnapshot timed_snapshot_of(const Plan& plan, const ModelledTimes& times);

}  // namespace gpuplan
