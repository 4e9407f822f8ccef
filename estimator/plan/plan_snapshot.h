// A plan as the snapshot that PyTorch would write of the same run: what shows, compares or replays snapshots does so
// with plans.
#pragma once

#include "estimator/plan/plan.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// The history of model construction and three steps. An event's stack is the operation, with the line of the spec, and
/// the modules around it, the innermost first; time is counted in events. Throws Error for other allocators than
/// PyTorch's caching one.
Snapshot snapshot_of(const Plan& plan);

}  // namespace gpuplan
