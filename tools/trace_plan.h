// gpuplan plan on what gpuplan shadow --learn has written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "estimator/error.h"
#include "tools/output_options.h"
#include "tools/run_options.h"

namespace gpuplan {

/// Whether a model named on the command line is a file that begins as a learned trace does.
bool is_learned_trace(const std::string& model);
/// Standard input, a model or a trace. Throws Error: it is larger than a trace may be.
std::shared_ptr<const Source> read_model_or_trace();

/// Whether a text begins as one does.
bool is_trace_text(std::string_view text);
/// The text of one, which may be longer than a model's. Throws Error.
Source read_trace_file(const std::string& path);

/// Peaks of a trace at the values that --batch, --seq and --set give; device: with the CUDA context.
struct TraceFigures {
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
};
/// Throws Error, also for flags whose answer a recording has already given.
TraceFigures trace_figures(const Source& source, const RunOptions& run);

/// Of a command that needs layers, where the model is a trace. Throws Error (usage).
void refuse_learned_trace(const std::string& model);
void refuse_learned_trace(const Source& text);

/// Plans the trace, a file or what standard input was, at --batch, --seq and --set, and prints its report. Returns the
/// exit code. Throws Error, also for flags whose answer a recording has already given.
int plan_learned_trace(const RunOptions& run, const OutputOptions& output);

}  // namespace gpuplan
