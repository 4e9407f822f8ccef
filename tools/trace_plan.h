// gpuplan plan on what gpuplan shadow --learn has written.
#pragma once

#include <string>

#include "tools/output_options.h"
#include "tools/run_options.h"

namespace gpuplan {

/// Whether a model named on the command line is a file that begins as a learned trace does.
bool is_learned_trace(const std::string& model);

/// Of a command that needs layers, where the model is a trace. Throws Error (usage).
void refuse_learned_trace(const std::string& model);

/// Plans the trace at --batch, --seq and --set, and prints its report. Returns the exit code. Throws Error, also for
/// flags whose answer a recording has already given.
int plan_learned_trace(const RunOptions& run, const OutputOptions& output);

}  // namespace gpuplan
