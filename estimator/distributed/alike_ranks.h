// Which ranks of data parallelism hold the same, so that one plan is that of all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Ranks that are alike, ascending.
using AlikeRanks = std::vector<std::int64_t>;

/// All ranks of `strategy`, those that hold parts of the same sizes together, by the first of each. `graph` is that of
/// any rank. FSDP2: the shards of every parameter; ZeRO-1: what each owns; DeepSpeed's stages 1 and 2: what their part
/// has of which parameter. Ranks of DDP are all alike, and those of context parallelism that have other tokens differ.
std::vector<AlikeRanks> alike_ranks(const Graph& graph, const RunConfig& run, const Strategy& strategy);

}  // namespace gpuplan
