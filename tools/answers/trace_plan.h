// gpuplan plan on what gpuplan shadow --learn has written.
#pragma once

#include <cstdint>

#include "estimator/base/error.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

/// Peaks of a trace at the values that --batch, --seq and --set give; device: with the CUDA context.
struct TraceFigures {
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
};
/// Throws Error, also for flags whose answer a recording has already given.
TraceFigures trace_figures(const Source& source, const RunOptions& run);

/// Plans the trace at --batch, --seq and --set, and prints its report. Returns the
/// exit code. Throws Error, also for flags whose answer a recording has already given.
int plan_learned_trace(const RunOptions& run, const OutputOptions& output);

}  // namespace gpuplan
