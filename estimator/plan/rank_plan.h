// What one rank of several takes, as values.
#pragma once

#include <optional>
#include <vector>

#include "estimator/distributed/communication.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/plan/report.h"
#include "estimator/plan/timing.h"

namespace gpuplan {

struct RankPlan {
  Report report;                // of the rank; report.run.batch is its own
  Strategy strategy;            // as asked for
  StateBytes states;            // by the definition of the strategy (zero_states.h)
  std::int64_t nccl_bytes = 0;  // of report.peak.context_bytes
  std::vector<CommunicationRow> communication;
  std::optional<RankTime> time;  // of time_rank.h, where it was asked for and is known
};

}  // namespace gpuplan
