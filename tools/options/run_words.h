// The flags of a run, back from what was read of them.
#pragma once

#include <string>
#include <vector>

#include "tools/options/run_options.h"

namespace gpuplan {

/// The flags as they were written, without the model, the batch and the GPU: {"--opt", "adam", "--set", "classes=10"}.
std::vector<std::string> run_words(const RunOptions& options);

}  // namespace gpuplan
