// The table of contents of a rank's time, as plan_rank.h is of its memory.
#pragma once

#include <optional>
#include <span>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// How long a step of `strategy.rank` takes; `run.batch` is the whole step's. Nothing where why_no_time() says
/// something or the link is not known. ZeRO-2 and 3 step 1 / n of everything. Copies into the collectives' buffers and
/// out of them are in it; under DDP and FSDP2 each costs the host a node of backward.
std::optional<RankTime> time_rank(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                                  std::span<const CommunicationRow> communication, const Gpu& gpu, HostCopy copy,
                                  const TimeModel& constants = {});

}  // namespace gpuplan
