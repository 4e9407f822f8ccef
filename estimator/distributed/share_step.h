// What several GPUs change of a step that one GPU could run.
#pragma once

#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// Who keeps what of the graph and its schedules, and what they send each other: RankStep::collectives and units.
void share_model(RankStep& step);

/// Who steps what: RankStep::optimizer, which is that of all parameters before, and states.
void share_states(RankStep& step);

}  // namespace gpuplan
