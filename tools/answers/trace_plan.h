// gpuplan plan on what gpuplan shadow --learn has written.
#pragma once

#include "estimator/base/error.h"
#include "estimator/device/gpu.h"
#include "estimator/search/figures.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

/// Peaks of a trace at the values that --batch, --seq and --set give; on a GPU with the verdict. Neither FLOPs nor
/// time. Throws Error, also for flags whose answer a recording has already given.
PlannedFigures trace_figures(const Source& source, const RunOptions& run, const Gpu* gpu = nullptr);

/// Plans the trace at --batch, --seq and --set, and prints its report. Returns the
/// exit code. Throws Error, also for flags whose answer a recording has already given.
int plan_learned_trace(const RunOptions& run, const OutputOptions& output);

}  // namespace gpuplan
