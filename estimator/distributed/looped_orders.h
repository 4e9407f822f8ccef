// What a rank computes, forwards and backwards alone, under the schedules of torch.distributed.pipelining in which it
// has several stages (schedules.py of PyTorch 2.15: their _calculate_single_rank_operations).
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// What is computed with nothing else between, one entry each: one computation, or some that are overlapped.
using Overlapped = std::vector<std::vector<PipelineAction>>;

/// Of the rank at that place in the pipeline. Throws Error, of kind usage, for numbers of micro-batches that the
/// schedule refuses.
Overlapped looped_order(const Strategy& strategy, std::int64_t rank, std::int64_t micro_batches);

}  // namespace gpuplan
