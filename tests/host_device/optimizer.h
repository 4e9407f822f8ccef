// One step of an optimizer, and clipping: torch.optim's formulas as its documentation writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "estimator/spec/run_config.h"
#include "validate/executor/kernel.h"

namespace gpuplan::host {

/// Throws Error for states that are not there.
void update(const OptimizerConfig& config, std::int64_t step, const ParameterUpdate& parameter);
/// torch.nn.utils.clip_grad_norm_(parameters, 1.0).
void clip(std::span<const KernelTensor> gradients);
/// torch.amp.GradScaler's unscale_ (aten/src/ATen/native/cuda/AmpKernels.cu: the inverse of the scale is rounded to
/// fp32) and update, with its defaults.
void unscale(std::span<const KernelTensor> gradients, const ScalerValues& values);
void update_scale(const ScalerValues& values);

}  // namespace gpuplan::host
