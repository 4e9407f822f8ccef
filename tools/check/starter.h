// A gpuplan.yaml to go on from: today's figures and some room above them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/run_options.h"

namespace gpuplan {

/// A check for each model, run as `run` says (its own model is not looked at). `headroom`: hundredths of a percent.
/// Throws Error where a model cannot be planned, or two have one name.
std::string starter_budget(const std::vector<std::string>& models, const RunOptions& run, std::int64_t headroom);

}  // namespace gpuplan
