// Parameters that get no gradient, for which DDP's reducer waits.
#pragma once

#include <cstdint>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// The reducer waits for every trained parameter's gradient; where one never comes, the next forward raises "Expected
/// to have finished reduction in the prior iteration" (torch/csrc/distributed/c10d/reducer.cpp,
/// ensure_prior_reduction_finished), unless find_unused_parameters looks for such parameters in every step. Throws
/// Error (usage) where the strategy is DDP's without it and there is one.
void refuse_unused_parameters(const Graph& graph, const Schedule& schedule, const Strategy& strategy);

/// What find_unused_parameters reduces besides: which parameters are used, an int32 each.
std::int64_t unused_map_bytes(const Graph& graph);

}  // namespace gpuplan
