// --fail-on.
#pragma once

#include <string>

#include "estimator/compare/growth_limit.h"

namespace gpuplan {

/// "peak +5%", "device +512MiB", "params +1M", "flop +0.5 TFLOP", "seconds +2ms". Throws Error (usage).
GrowthLimit read_growth_limit(const std::string& text);

}  // namespace gpuplan
