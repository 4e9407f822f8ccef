// The steps of a rank's stages as one step of the rank.
#pragma once

#include <vector>

#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// `rank`: the step of the rank, whose run, strategy and actions it keeps. `stages`: a step of each of its stages, from
/// the first one on, with what several GPUs allocate besides; of one stage that is the step.
RankStep joined_stages(RankStep rank, std::vector<RankStep> stages);

}  // namespace gpuplan
