// torch.optim's updates and clip_grad_norm_ of all parameters.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/spec/run_config.h"
#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel.h"

namespace gpuplan::cuda {

/// Throws Error where a gradient or a state lies otherwise than its
/// parameter.
void update_parameters(const LaunchContext& launch, const OptimizerConfig& config, std::int64_t step,
                       std::span<const ParameterUpdate> parameters);
void clip_norm(const LaunchContext& launch, std::span<const KernelTensor> gradients);
/// torch.amp.GradScaler's.
void unscale_gradients(const LaunchContext& launch, std::span<const KernelTensor> gradients,
                       const ScalerValues& values);
void update_scale(const LaunchContext& launch, const ScalerValues& values);

}  // namespace gpuplan::cuda
