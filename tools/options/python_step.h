// From flags to how a step of a model in Python is taken.
#pragma once

#include "tools/options/run_options.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {

/// Flags that were not given stay empty; the GPU is that of --gpu, or an A100.
ModelStep python_step(const RunOptions& options);

}  // namespace gpuplan
