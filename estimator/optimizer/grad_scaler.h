// torch.amp.GradScaler, which fp16 autocast trains with: scalars of a block each (torch/amp/grad_scaler.py). What
// scale(loss) allocates belongs to backward; here is what lives from the first step on and what step() and update()
// add.
#pragma once

#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// The scale and the growth tracker, made by the first scaler.scale(loss).
OptimizerProgram grad_scaler_state();
/// scaler.step(optimizer) and scaler.update() around an optimizer's step: gradients are unscaled in place, and a fused
/// optimizer is handed the scale instead.
OptimizerProgram grad_scaler_step(const OptimizerProgram& step, OptimizerImpl impl);

}  // namespace gpuplan
