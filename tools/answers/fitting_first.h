// The order of what `gpuplan fit --may` has tried.
#pragma once

#include <vector>

#include "estimator/search/sweep_row.h"

namespace gpuplan {

/// Those that could be planned, numbered anew: first those that fit, by their throughput, and in the order given where
/// that is not known; then those that do not, by what they need.
std::vector<SweepRow> fitting_first(std::vector<SweepRow> rows);

}  // namespace gpuplan
