// A snapshot's events as the trace that replay() takes.
#pragma once

#include <cstdint>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/trace.h"
#include "estimator/snapshot/snapshot_history.h"

namespace gpuplan {

/// An event's line is its number in the snapshot, from 1; 0 where it is none of it. What is there before the history is
/// made first, in one allocation each, where it lies. Throws Error: more events than a trace may have, or memory that
/// two segments share.
Trace trace_of(const Snapshot& snapshot, std::size_t device);

struct ReplayWithin {
  bool runs = false;
  std::int64_t short_bytes = 0;  // of the request that failed: what the device and the cache lack for it
};

/// The requests up to an error of memory, and the one that failed, with so many bytes for segments.
ReplayWithin replay_until(const Snapshot& snapshot, std::size_t device, const SnapshotOutOfMemory& failure,
                          const AllocatorSettings& settings, std::int64_t bytes);

}  // namespace gpuplan
