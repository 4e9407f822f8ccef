// Megatron-core's DistributedDataParallel and its mixed-precision optimizers, as they run: what one rank allocates
// beside the operations of a step. Rules: megatron/core 0.16, distributed/*.py, optimizer/*.py without Apex,
// pipeline_parallel/schedules.py, and transformer_engine/pytorch/optimizers 2.20; checked against recorded traces.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Whether it is a weight of a norm of PyTorch's, which is made in fp32, on the host.
bool is_of_norm(const Graph& graph, TensorId t);

/// All gradients are in one buffer from the beginning, to which each one is added as it comes; with the distributed
/// optimizer parameters are in another. Main parameters, or the rank's parts of them, are fp32 copies. Before the
/// optimizer a norm of each gradient is computed.
CollectiveMemory megatron_memory(const Graph& graph, const Schedule& schedule, const Strategy& strategy,
                                 const RunConfig& run, const Gpu& gpu);

/// Steps the main parameters, the group with weight decay before the other one.
OptimizerWork megatron_optimizer(const Graph& graph, const Schedule& schedule, const Strategy& strategy,
                                 const RunConfig& run, const Gpu& gpu);

/// What the rank holds of the model between steps; `optimizer_bytes` of torch.optim's states.
StateBytes megatron_states(const Graph& graph, const Strategy& strategy, std::int64_t optimizer_bytes);

/// What a step reduces and gathers, of all ranks: the buffers, and the bucket that is reduced last and gathered first.
struct MegatronBytes {
  std::int64_t gradients = 0, parameters = 0, last_bucket = 0, first_gather = 0;
  std::int64_t buckets = 0;
};
MegatronBytes megatron_bytes(const Graph& graph, const Strategy& strategy);

}  // namespace gpuplan
