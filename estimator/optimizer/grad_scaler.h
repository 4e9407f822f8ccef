// torch.amp.GradScaler, which fp16 autocast trains with: scalars of a block each (torch/amp/grad_scaler.py). What
// scale(loss) allocates belongs to backward; here is what lives from the first step on and what step() and update()
// add.
#pragma once

#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// Slots of the two programs for who runs them: the scale and the growth tracker, and where a step notes that a
/// gradient is not finite.
constexpr std::int32_t kScaleSlot = 0, kGrowthTrackerSlot = 1, kFoundInfSlot = 0;

/// The scale (fp32) and the growth tracker (int32), made by the first scaler.scale(loss).
OptimizerProgram grad_scaler_state();
/// scaler.step(optimizer) and scaler.update() around an optimizer's step: gradients are unscaled in place, and a fused
/// optimizer is handed the scale instead.
/// `unscaled`: scaler.unscale_(optimizer) was called before, in grad_scaler_clip's program.
OptimizerProgram grad_scaler_step(const OptimizerProgram& step, OptimizerImpl impl, bool unscaled = false);
/// scaler.unscale_(optimizer), and the clipping of what it unscaled.
OptimizerProgram grad_scaler_clip(const OptimizerProgram& clip);

}  // namespace gpuplan
