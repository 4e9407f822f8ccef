// What DistributedDataParallel, FSDP2 and FSDP1 allocate on one rank in addition to the operations of a step, and at
// which point of the schedule. Rules: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp,
// torch/distributed/fsdp/_fully_shard/*.py of PyTorch 2.15, checked against recorded traces.
#pragma once

#include <span>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/ddp_buckets.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/strategy.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// From 2.15 on FSDP2 has gradients that it sums over micro-batches converted as they come (grad_dtype of the unsharded
/// parameter, RunConfig::gradient_type); before, it does it when its unit's backward ends
/// (to_accumulated_grad_if_needed).
constexpr PyTorchVersion kSumsAsTheyCome = 215;

/// The step after which each gradient is whole: one a member of Schedule::with_gradient.
std::vector<std::int32_t> gradient_steps(const Schedule& schedule);

/// The buckets in which DDP reduces gradients from the second step on, in the order in which they go.
std::vector<GradientBucket> gradient_buckets(const Graph& graph, const Schedule& schedule, const Strategy& strategy);

/// Buffers of modules, which DDP sends. bitsandbytes' scales of a weight are none.
std::vector<TensorId> module_buffers(const Graph& graph);

/// DDP, also with ZeroRedundancyOptimizer: a copy of the model's state goes out when it is made, and buckets hold all
/// gradients a second time; one for all in the first step, of 25 MiB each in the order of backward from the second
/// forward on. gradient_as_bucket_view: the gradients are parts of the buckets. Buffers are sent before each forward.
/// All of it before and in the first micro-batch only: the forward before one of the others was under no_sync()
/// (distributed.py, require_forward_param_sync), and so was its backward, whose gradients the reducer does not see
/// (reducer.cpp, expect_autograd_hooks_).
CollectiveMemory ddp_memory(const Graph& graph, const Schedule& schedule, const Strategy& strategy);

/// FSDP2: before a unit runs its parameters are gathered and copied out, after its forward they go (but the root's);
/// in backward the unit before is gathered ahead, and the gradients of a unit become its shard's. So in each
/// micro-batch; with Strategy::reduces_last only the last one reduces, what all have added up. `schedules`:
/// MicroBatchSchedules'.
CollectiveMemory fsdp_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                             const RunConfig& run, const Gpu& gpu);

/// FSDP1: each module's parameters are one flat parameter, which is gathered before the module runs into memory that is
/// given back after it, and of which autograd makes one gradient when it has those of all of them.
CollectiveMemory fsdp1_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                              const RunConfig& run);

}  // namespace gpuplan
