// A check of the command line: gpuplan check model.yaml --batch 64 --max-peak 8GiB.
#pragma once

#include <string>
#include <vector>

#include "estimator/budget/budget.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Limits as written; empty: not given.
struct LimitOptions {
  std::string max_peak, max_reserved, max_device, max_params, max_flop, max_time, max_cost, max_growth;
  std::vector<std::string> fits;
  bool any() const;
};

/// The check, with a text of its limits as its source, which marks point into. Throws Error (usage), for a --margin
/// without --fits, too.
Budget one_off_budget(const RunOptions& run, const SeveralGpusOptions& several, const LimitOptions& limits);

}  // namespace gpuplan
