// Schedules of torch.distributed.pipelining in which a rank has several stages (schedules.py of PyTorch 2.15,
// PipelineScheduleMulti): what is sent, gathered and reduced between what looped_orders.h says.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// All that the rank of `strategy` does. Throws Error, of kind usage, for numbers of micro-batches that the schedule
/// refuses.
std::vector<PipelineAction> looped_actions(const Strategy& strategy, std::int64_t micro_batches);

}  // namespace gpuplan
