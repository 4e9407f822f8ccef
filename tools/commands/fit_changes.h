// gpuplan fit --solve and --may: which number, and which changes together, make a step fit a GPU.
#pragma once

#include "tools/options/fit_options.h"

namespace gpuplan {

/// Prints a table of what --solve asks for; the exit code is 1 where nothing fits.
int run_solve(const FitOptions& options);
/// The same of --may: combinations of changes, or of ways to share a step.
int run_may(const FitOptions& options);
/// The same of the parts that --shard wrote.
int run_join(const FitOptions& options);

}  // namespace gpuplan
