// Snapshots, of runs and of plans, for viewers that people have.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// Trace Event Format (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), of Perfetto and
/// chrome://tracing: allocated and reserved bytes as counters, marked ranges as slices, one process a device.
std::string snapshot_trace_events(const Snapshot& snapshot);

/// What is alive at each device's peak, by stack, in bytes: speedscope.app/file-format-schema.json.
std::string snapshot_speedscope(const Snapshot& snapshot);

}  // namespace gpuplan
