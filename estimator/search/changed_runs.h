// Changes of a run that may make it take less memory.
#pragma once

#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/run_config.h"

namespace gpuplan {

/// A run with one thing changed, and the flags that say so.
struct ChangedRun {
  std::string flags;
  RunConfig run;
};

/// Half types that `gpu` computes in, checkpointing of blocks, weights of 8 bits, leaner optimizers, a batch of one:
/// those that are none of the run's already. Whether one helps is for a plan to say.
std::vector<ChangedRun> changed_runs(const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
