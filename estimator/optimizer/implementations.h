// The implementations behind optimizer_step: what one call of torch.optim's functional form allocates once its
// states exist. Each is a transcription of the release's torch/optim/*.py, statement by statement.
#pragma once

#include <span>

#include "estimator/optimizer/optimizer.h"
#include "estimator/optimizer/step_builder.h"

namespace gpuplan {

struct OptimizerStep {
  std::span<const OptimizerParameter> parameters;
  OptimizerConfig config;
  PyTorchVersion pytorch;
  bool first;
};

/// _single_tensor_*: parameter after parameter.
void for_loop_step(const OptimizerStep& step, StepBuilder& builder);
/// _multi_tensor_* since 2.1.
void foreach_step(const OptimizerStep& step, StepBuilder& builder);
/// _multi_tensor_* of 1.13.
void foreach_step_1_13(const OptimizerStep& step, StepBuilder& builder);
/// _fused_*: allocates nothing, only launches.
void fused_step(const OptimizerStep& step, StepBuilder& builder);
/// bitsandbytes' optimizers: makes the states of the first step.
void bitsandbytes_step(const OptimizerStep& step, StepBuilder& builder);

}  // namespace gpuplan
