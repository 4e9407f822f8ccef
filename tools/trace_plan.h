// gpuplan plan on what gpuplan shadow --learn has written.
#pragma once

#include <cstdint>
#include <string_view>

#include "estimator/error.h"
#include "tools/output_options.h"
#include "tools/read_source.h"
#include "tools/run_options.h"

namespace gpuplan {

/// Whether what was named begins as a learned trace does.
bool is_learned_trace(const NamedFile& input);

/// Whether a text begins as one does.
bool is_trace_text(std::string_view text);

/// Peaks of a trace at the values that --batch, --seq and --set give; device: with the CUDA context.
struct TraceFigures {
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
};
/// Throws Error, also for flags whose answer a recording has already given.
TraceFigures trace_figures(const Source& source, const RunOptions& run);

/// Of a command that needs layers, where the model is a trace. Throws Error (usage).
void refuse_learned_trace(const NamedFile& input);

/// Plans the trace at --batch, --seq and --set, and prints its report. Returns the
/// exit code. Throws Error, also for flags whose answer a recording has already given.
int plan_learned_trace(const RunOptions& run, const OutputOptions& output);

}  // namespace gpuplan
