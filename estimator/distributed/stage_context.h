// What a rank of context parallelism cuts before the stages of its pipeline run a step.
#pragma once

#include <cstdint>

#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// torchtitan's context_parallel() around schedule.step(), of all samples of the step: tokens where the rank has the
/// first stage, shifted labels where it has the last, and positions, which each stage is given. `all`: tokens of a
/// sample. Writes CollectiveMemory::before_step and after_step.
void cut_step(RankStep& rank, std::int64_t all);

}  // namespace gpuplan
