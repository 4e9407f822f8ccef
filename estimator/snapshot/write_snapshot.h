// Snapshots as files that viewers open.
#pragma once

#include <string>

#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// The pickle that torch.cuda.memory._dump_snapshot() would write: for pytorch.org/memory_viz, torch.cuda._memory_viz
/// and read_snapshot().
std::string snapshot_pickle(const Snapshot& snapshot);

/// What is alive at a device's peak as folded stacks, outermost first: "model;layer1;layer1.0 conv 4096"
/// (flamegraph.pl, inferno), in bytes.
std::string snapshot_folded(const Snapshot& snapshot, std::size_t device);

}  // namespace gpuplan
