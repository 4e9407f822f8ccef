// Stages of torch.distributed.pipelining, which are planned together: what one needs is its own, how long a step takes
// follows from all.
#pragma once

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/strategy.h"
#include "tools/answers/planning.h"

namespace gpuplan {

/// The report of the rank that `strategy` says.
PlannedReport plan_stage(const Planning& planning, const Strategy& strategy, const Topology& topology);
/// That of the one that needs the most, with RankShare::every of all.
PlannedReport plan_every_stage(const Planning& planning, const Strategy& strategy, const Topology& topology);
/// The same of the first rank of each stage, without RankShare::every: of middle stages with as many blocks the first
/// one, which has the most micro-batches in flight, stands for all.
PlannedReport plan_worst_stage(const Planning& planning, const Strategy& strategy, const Topology& topology);

}  // namespace gpuplan
