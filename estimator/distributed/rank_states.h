// What a rank has of a model's states, in the types that they are stored in.
#pragma once

#include <cstdint>

#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Parameters and gradients of FSDP2 with their padding; frozen parameters are there as the others are.
/// `optimizer_bytes`: of one GPU, which are shared as zero_states.h says, but for FSDP2, whose states its shards say.
StateBytes rank_states(const Graph& graph, const RunConfig& run, std::int64_t optimizer_bytes,
                       const Strategy& strategy);

}  // namespace gpuplan
