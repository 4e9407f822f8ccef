// Run flags as gpuplan.yaml writes them: batch: 64, optimizer: adam, clip_grad_norm: true.
#pragma once

#include "estimator/budget/read_budget.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// The keys that a check may set, with dashes: those of the flags that `gpuplan plan` takes.
RunKeys run_keys();

/// The flags of a check, its model left out. Throws Error, at the setting, for a value that no flag is switched by.
RunOptions options_of(const Check& check);
/// The other way round, of flags that were given: without places.
std::vector<Setting> settings_of(const RunOptions& options);
/// The run that they say. Throws Error (input) at the setting that is wrong, or at the check.
RunConfig run_of(const Check& check, const RunOptions& options);

}  // namespace gpuplan
