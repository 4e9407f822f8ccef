// One of the stages that a rank of torch.distributed.pipelining has, in the rank's graph and schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/joined_schedules.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

struct RankStage {
  /// Of one of the schedules, of MicroBatchSchedules.
  struct Pass {
    PhaseRanges steps;
    BufferId received_gradient = kNone;    // of the output; none on the last stage
    std::vector<BufferId> beside_results;  // Schedule's, of the stage
    std::int32_t weights_begin = kNone;    // the same
    BufferId states_gradient = kNone;      // one of beside_results: of what the stage is given
  };
  std::int64_t number = 0;  // among all of the pipeline
  bool first = true, last = true;
  BufferId states = kNone;                // what the stage before sends; none on the first one
  BufferId output = kNone, loss = kNone;  // Schedule's, of the stage
  std::vector<BufferId> named_buffers;    // of its modules
  std::vector<Pass> passes;
};

/// That of a graph which is all of it. `stages`: so many has the pipeline.
RankStage rank_stage(const Graph& graph, const MicroBatchSchedules& micro_batches, std::int64_t number,
                     std::int64_t stages);

/// What becomes of it where its graph and schedules are a part of others.
RankStage moved_stage(RankStage stage, const JoinedPart& part);

}  // namespace gpuplan
