// Changes of a run that may make it take less memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// How far a change reaches into what is computed, least first.
enum class Reach : std::uint8_t {
  nothing,    // the same numbers, but for the order of sums
  rounding,   // fewer bits in products
  weights,    // fewer bits in what is kept, too
  batch,      // fewer samples a step
  optimizer,  // another one
};

/// A run with one thing changed, and the flags that say so.
struct ChangedRun {
  std::string flags;
  RunConfig run;
  Reach reach = Reach::nothing;
};

/// Half types that `gpu` computes in, checkpointing of blocks, weights of 8 and 4 bits, leaner optimizers, a batch of
/// one: those that are none of the run's already. Whether one helps is for a plan to say.
std::vector<ChangedRun> changed_runs(const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
