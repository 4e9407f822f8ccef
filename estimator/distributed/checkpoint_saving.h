// What a rank allocates while the job saves a checkpoint between two steps: torch.distributed.checkpoint.state_dict's
// get_model_state_dict() and get_state_dict(), which Accelerate and transformers' Trainer call, too.
#pragma once

#include "estimator/distributed/rank_step.h"
#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// With full_state_dict=True and cpu_offload=True, the parameters that FSDP2 and tensor and expert parallelism share,
/// and the states of the optimizer that are as these are, become whole on the GPU one after another, and go on to the
/// host (_state_dict_utils.py, _gather_state_dict); FSDP1's: fsdp1_saving.h. Nothing is allocated for what is not
/// shared, and where each rank saves its own part; what DeepSpeed's engines do is CollectiveMemory::saving. Throws
/// Error, of kind usage, for what was not recorded.
OptimizerProgram checkpoint_saving(const RankStep& step);

}  // namespace gpuplan
