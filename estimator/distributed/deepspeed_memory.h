// DeepSpeed's stages 1 and 2 as they run: what one rank allocates beside the operations of a step. Rules:
// deepspeed/runtime/zero/stage_1_and_2.py of 0.19, DeepSpeedZeroOptimizer, checked against recorded traces.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/deepspeed_part.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Half-precision parameters are copied into one flat tensor, of which the rank has a part in fp32, too. Gradients go
/// into a bucket of Strategy::reduce_bucket_elements as they come; a full one is reduced in a copy, and what the rank
/// has a part of is copied again. Of micro-batches, stage 2 adds each one's copy to the first one's, and stage 1 fills
/// the bucket with the last one. Before the optimizer the part of the gradients becomes one fp32 tensor, after norms in
/// fp64.
CollectiveMemory deepspeed_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                                  const RunConfig& run, const Gpu& gpu);

/// What the rank holds of the model between steps: the flat parameters, gradients (of stage 2 its part), and the fp32
/// part with the optimizer's states of it.
StateBytes deepspeed_states(const Graph& graph, const Strategy& strategy, const RunConfig& run,
                            std::int64_t optimizer_bytes);

}  // namespace gpuplan
