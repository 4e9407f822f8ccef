// --megatron: a run of Megatron-LM's pretrain_gpt.py, by the arguments that start it.
#pragma once

#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Reads SeveralGpusOptions::megatron: the model as one rank has it, which becomes RunOptions::piped, and the flags of
/// its step. Throws Error, with the place, for arguments that are not planned, and for flags that say otherwise.
void read_megatron(SeveralGpusOptions& several, RunOptions& run);

}  // namespace gpuplan
