// --rank all: each rank that differs from the others is planned, and the one that needs the most is reported.
#pragma once

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/strategy.h"
#include "tools/answers/planning.h"

namespace gpuplan {

/// The report of the rank that needs the most, with RankShare::every of all. Throws Error, of kind usage, where more
/// ranks differ than are planned at once.
PlannedReport plan_every_rank(const Planning& planning, const Strategy& strategy, const Topology& topology);
/// The same of the ranks that share one stage, or the whole model.
PlannedReport plan_ranks(const Planning& planning, Strategy strategy, const Topology& topology);
/// The report of the rank that needs the most, without RankShare::every; where more ranks differ than are planned for
/// that, of those between the first and the last that are as far apart.
PlannedReport plan_worst_rank(const Planning& planning, Strategy strategy, const Topology& topology);

}  // namespace gpuplan
