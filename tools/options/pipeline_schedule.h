// --pp-schedule: the stages of --pp as torch.distributed.pipelining runs them.
#pragma once

#include "estimator/distributed/strategy.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// The help of --pp-schedule.
constexpr const char* kPipelineHelp =
    "Stages as torch.distributed.pipelining runs them, of any model with blocks: its schedule, stages=2 (of each rank; "
    "not of 1f1b and gpipe), outputs=drop (return_outputs=False), split=5/4/4/3 (blocks of each stage; "
    "torchtitan: as that shares them)";

/// "interleaved1f1b,stages=2,outputs=drop,split=5/4/4/3" into a strategy, and --rank, which counts the GPUs of all
/// stages: the ranks of the first place in the pipeline, then those of the second one. Throws Error (usage) for what is
/// not understood or said twice.
void read_pipeline(const SeveralGpusOptions& options, Strategy& strategy);

/// How `strategy` shares a step that runs stages. `data_given`, `loop_given`: whether a flag says how ranks share a
/// stage, and how the loop goes. Throws Error, of kind usage, for what a stage does not have.
Strategy with_stages(Strategy strategy, bool data_given, bool loop_given);

}  // namespace gpuplan
