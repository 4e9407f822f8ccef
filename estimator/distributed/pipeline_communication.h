// What a stage of torch.distributed.pipelining sends to its neighbours: the hidden states of each micro-batch to the
// next one, their gradients to the one before.
#pragma once

#include <optional>
#include <vector>

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// Between the rank of a stage and its like in the next one, which is as many GPUs on as share a stage (a mesh of
/// places in the pipeline x ranks x those that share layers), or at the first place again. All of a node that cross to
/// another one share what it has. Nothing where it is not known.
std::optional<Link> link_to_next_stage(const Strategy& strategy, std::int64_t stage, const Topology& topology);

/// One row for each neighbour of each of the rank's stages, of all micro-batches. What they wait for is
/// pipeline_time.h's.
std::vector<CommunicationRow> stage_rows(const RankStep& step, const Topology& topology);

/// Bytes of a micro-batch's hidden states, as they come to the stage and as they leave it; 0 where they do not, as
/// from a stage of the same rank.
std::int64_t received_bytes(const RankStep& step, const RankStage& stage);
std::int64_t sent_on_bytes(const RankStep& step, const RankStage& stage);

}  // namespace gpuplan
