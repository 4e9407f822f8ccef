// --deepspeed FILE: the ds_config.json that a run has, as flags. "auto" is what transformers' Trainer fills in.
#pragma once

#include <string>

#include "estimator/distributed/strategy.h"
#include "estimator/spec/model.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Adds what the file says to flags that do not say it. Throws Error, with the place, for a key that DeepSpeed does not
/// know, for a value that contradicts a flag, and for what is not planned as DeepSpeed runs it.
void read_deepspeed(SeveralGpusOptions& several, RunOptions& run);

/// What "auto" is of a model (transformers/integrations/deepspeed.py, trainer_config_finalize). Throws Error, of kind
/// usage, for one that has no variable called hidden.
void fill_in_auto(const DeepSpeedOptions& options, const Model& model, Strategy& strategy);

}  // namespace gpuplan
