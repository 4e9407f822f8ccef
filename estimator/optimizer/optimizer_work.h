// What optimizer.step(), gradient clipping and the GradScaler do in each step of a training loop, according to
// RunConfig.
#pragma once

#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/optimizer/optimizer.h"
#include "estimator/optimizer/trainer_tensors.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct OptimizerWork {
  OptimizerProgram construction, scaler, clip, first, steady;  // scaler: once, in the first backward
  /// With RunConfig::optimizer_in_backward: of one parameter each, in the order of Schedule::with_gradient.
  std::vector<OptimizerProgram> first_of, steady_of;
  TrainerTensors trainer;
  std::int64_t managed_bytes = 0;  // of paged states: managed memory, beside PyTorch's allocator
};

/// Three variants of the loop besides torch.optim's own:
/// - optimizer_in_backward: one optimizer a parameter, called from register_post_accumulate_grad_hook (PyTorch's
/// tutorial
///   "How to save memory by fusing the optimizer step into the backward pass");
/// - master_weights: Megatron-LM's Float16OptimizerWithFloat16Params (megatron/core/optimizer/optimizer.py) without a
///   distributed wrapper: fp32 copies made with detach().clone().float(); before clipping and stepping each gradient is
///   cast to fp32 and the half-precision one dropped; the fp32 ones go in zero_grad;
/// - offload_optimizer: states, master copies and step on the host, gradients copied there and parameters back.
/// Throws Error, of kind usage, for variants that exclude each other.
OptimizerWork optimizer_work(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Gpu& gpu);

/// Of the states after the first step.
std::int64_t state_bytes(const OptimizerWork& work);

/// The type of the gradients that the optimizer is given.
DType stepped_type(DType parameter, const RunConfig& run);

}  // namespace gpuplan
