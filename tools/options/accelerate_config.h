// --accelerate FILE: the YAML that `accelerate config` writes, as flags: how many processes, DDP, FSDP2 or DeepSpeed,
// and mixed precision.
#pragma once

#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Adds what the file says to flags that do not say it. Throws Error, with the place, for a key that Accelerate does
/// not know, for a value that contradicts a flag, and for what is not planned as Accelerate runs it.
void read_accelerate(SeveralGpusOptions& several, RunOptions& run);

}  // namespace gpuplan
