// From flags to how a step of a model in Python is taken.
#pragma once

#include "tools/options/run_options.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {

/// The model that the flags name. Of `set` it takes what is the number of a size of its inputs, --input
/// input_ids:int64:seq, rather than of a variable of the spec; without --input hf: has seq and images.
PythonModel python_model(const RunOptions& options, std::vector<Variable>& set);

/// Flags that were not given stay empty; the GPU is that of --gpu, or an A100.
ModelStep python_step(const RunOptions& options);

}  // namespace gpuplan
