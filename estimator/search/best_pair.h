// A pair of changes that together bring a run below a limit, when no single change does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// What a run takes of the thing that is limited; nothing where it cannot be run.
using AmountOfRun = std::function<std::optional<std::int64_t>(const RunConfig&)>;

struct ChangedPair {
  std::string flags;
  std::int64_t amount = 0;  // with both; less than with either alone
};

/// Of changed_runs() two, or one and more micro-batches or a smaller batch: the pair that takes no more than `most` and
/// reaches least into what is computed (Reach), then the one with the larger batch, then the one that takes less. Where
/// none is under it the pair that takes least, so that who asks compares; nothing where no two changes help more than
/// one. So many groups share the batch equally.
std::optional<ChangedPair> best_pair(const RunConfig& run, const Gpu& gpu, std::int64_t groups, std::int64_t most,
                                     const AmountOfRun& amount);

}  // namespace gpuplan
