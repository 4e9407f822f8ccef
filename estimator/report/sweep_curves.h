// A sweep drawn: memory, and samples a second where they are known, over a swept flag.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/report/curves.h"
#include "estimator/search/sweep_row.h"

namespace gpuplan {

/// Over the flag with the most values that are numbers, or over the first, a curve for each combination of the others.
/// Limits are those of the GPUs. A point that cannot be run is left out.
std::vector<CurveFrame> sweep_curves(std::span<const std::string> names, std::span<const SweepRow> rows);

}  // namespace gpuplan
