// DeepSpeed's stage 3 as it runs: what one rank allocates beside the operations of a step. Rules:
// deepspeed/runtime/zero/stage3.py of 0.19, DeepSpeedZeroOptimizer_Stage3, checked against recorded traces.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Each parameter is divided among the ranks, and so are its gradient and its fp32 copy; parameters come and go as
/// parameter_coordinator.h says. Gradients go into a bucket of Strategy::reduce_bucket_elements as they come; a full
/// one is reduced in a copy of what it has, and the rank's partitions are copied into one flat tensor or added to it.
CollectiveMemory partitioned_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                                    const RunConfig& run, const Gpu& gpu);

/// What the rank holds of the model between steps: partitions, whole parameters that are too small for that, the
/// partitions' gradients, and the fp32 copies with the optimizer's states of them.
StateBytes partitioned_states(const Graph& graph, const Strategy& strategy, const RunConfig& run,
                              std::int64_t optimizer_bytes);

}  // namespace gpuplan
