// What FSDP1 allocates while a checkpoint is saved: FULL_STATE_DICT with offload_to_cpu and rank0_only, as
// get_state_dict() and Accelerate ask for it.
#pragma once

#include <span>

#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/strategy.h"
#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// Each flat parameter becomes whole, in the type that it is stored in and on every rank, and goes to the host
/// (fsdp/_unshard_param_utils.py, _unshard_fsdp_state_params). `states`: how many tensors like it the optimizer has
/// that are saved, too, and become whole one flat parameter after another.
OptimizerProgram flat_saving(std::span<const FlatParameter> flat, int states, const Strategy& strategy);

}  // namespace gpuplan
