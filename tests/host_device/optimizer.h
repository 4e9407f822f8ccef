// One step of an optimizer, and clipping: torch.optim's formulas as its documentation writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "estimator/run_config.h"
#include "validate/executor/kernel.h"

namespace gpuplan::host {

/// Throws Error for an optimizer that it does not have and for states that are not there.
void update(const OptimizerConfig& config, std::int64_t step, const ParameterUpdate& parameter);
/// torch.nn.utils.clip_grad_norm_(parameters, 1.0).
void clip(std::span<const KernelTensor> gradients);

}  // namespace gpuplan::host
