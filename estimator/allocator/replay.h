// Replays a recorded trace through the caching allocator: how much memory the program needs under other settings, and
// whether every block gets the address that it had in PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/trace.h"

namespace gpuplan {

/// The first event at which a replay leaves the recording.
struct ReplayDifference {
  std::size_t event = 0;  // index into Trace::events
  std::string expected;   // "alloc 3+4096000 16384000", as in the file
  std::string actual;
};

/// All in bytes but the counts.
struct ReplayReport {
  std::int64_t allocations = 0;
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_requested_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t segments = 0;             // cudaMalloc'ed, at the end
  std::int64_t fragmentation_bytes = 0;  // reserved minus allocated when allocated is at its peak
  std::int64_t peak_inactive_split_bytes = 0;
  std::int64_t inactive_split_bytes = 0;  // at the end
  std::int64_t largest_free_bytes = 0;    // at the end
  std::int64_t allocated_bytes = 0;       // at the end
  std::int64_t requested_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::optional<ReplayDifference> difference;  // with `check`
  std::optional<OutOfMemory> out_of_memory;    // only with a limit in the settings; the replay ends there
};

/// Replays every allocation and every completed free. With `check` it also compares each
/// segment and offset with the recorded one and stops at the first difference; that makes sense under the
/// settings of the recording only.
ReplayReport replay(const Trace& trace, const AllocatorSettings& settings, bool check);

}  // namespace gpuplan
