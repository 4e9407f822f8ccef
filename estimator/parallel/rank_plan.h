// What one rank of several takes, as values.
#pragma once

#include <optional>
#include <vector>

#include "estimator/parallel/communication.h"
#include "estimator/parallel/rank_time.h"
#include "estimator/parallel/strategy.h"
#include "estimator/parallel/zero_states.h"
#include "estimator/report/report.h"

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
