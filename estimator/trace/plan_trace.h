// A learned trace at given values: its events through PyTorch's caching allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/snapshot/snapshot.h"
#include "estimator/trace/learned_trace.h"

namespace gpuplan {

/// A phase of a step: what is alive at its end, and the highest within it, each figure by itself.
struct TraceRow {
  int step = 0;
  std::string phase;
  Readings live, peak;
};

/// Where the allocated bytes were highest, for the first time.
struct TraceMoment {
  int step = 0;
  std::string phase, name, line;  // of the allocation; the script's line, "" in backward
  std::int64_t event = 0;         // from 1, of allocations and frees
};

struct TraceOutOfMemory {
  OutOfMemory reading;
  TraceMoment place;
};

struct TracePlan {
  std::vector<std::int64_t> values;
  Readings peak;  // of the whole run, each figure by itself
  TraceMoment at;
  std::vector<TraceRow> rows;
  std::int64_t outside_bytes = 0;  // device memory that PyTorch's allocator does not know of
  std::int64_t events = 0, allocations = 0, segments = 0, inactive_split_bytes = 0;
  std::int64_t retries = 0;                                     // caches emptied for want of memory
  std::optional<TraceOutOfMemory> out_of_memory;                // the run ends there
  std::size_t nearest = 0;                                      // of the trace's runs: whose events these are
  bool recorded = false;                                        // the values are that run's own
  std::int64_t estimated_allocations = 0, estimated_bytes = 0;  // whose sizes are not known there; the largest one
  std::vector<std::string> notes;                               // sentences without an end
};

/// `capacity_bytes`: what the device has for PyTorch's segments. Throws Error where a size overflows or is below 0.
TracePlan plan_trace(const LearnedTrace& trace, std::span<const std::int64_t> values, const AllocatorSettings& settings,
                     std::int64_t capacity_bytes = INT64_MAX);

/// The same as the snapshot that PyTorch would write: a frame is a line of the script, or what an operator made.
Snapshot trace_snapshot(const LearnedTrace& trace, std::span<const std::int64_t> values,
                        const AllocatorSettings& settings);

}  // namespace gpuplan
