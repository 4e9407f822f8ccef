// Snapshots, of runs and of plans, for viewers that people have.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "estimator/plan/plan_snapshot.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// Trace Event Format (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), of Perfetto and
/// chrome://tracing: allocated and reserved bytes as counters, marked ranges as slices, one process a device.
/// With operations, which a plan has on a GPU whose times are modelled, a track of the host's calls and one of the GPU.
std::string snapshot_trace_events(const Snapshot& snapshot, std::span<const TimedOperation> operations = {});

/// What is alive at each device's peak, by stack, in bytes: speedscope.app/file-format-schema.json.
std::string snapshot_speedscope(const Snapshot& snapshot);

}  // namespace gpuplan
