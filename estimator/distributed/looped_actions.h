// Schedules of torch.distributed.pipelining in which a rank has several stages (schedules.py of PyTorch 2.15,
// PipelineScheduleMulti): which stage computes what micro-batch when, and what is sent, gathered and reduced between.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// What each rank computes, forwards and backwards alone, by its place in the pipeline. Throws Error, of kind usage,
/// for numbers of micro-batches that the schedule refuses.
std::vector<std::vector<PipelineAction>> looped_computations(const Strategy& strategy, std::int64_t micro_batches);

/// All that the rank of `strategy` does.
std::vector<PipelineAction> looped_actions(const Strategy& strategy, std::int64_t micro_batches);

}  // namespace gpuplan
