// Optimizers without rules of their own: the Python package (tools/python/gpuplan/optimizer_steps.py) takes steps of
// them on a simulated GPU, and what was recorded is kept in the user's cache, so that the next question needs no
// Python.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/optimizer/recorded_optimizer.h"

namespace gpuplan {

/// Whether --opt names an optimizer that is recorded: one of recorded_optimizer_names(), a class of a package or a
/// function of a file, with or without arguments, or several that share the parameters: muon:matrices,adamw:rest.
bool is_recorded_optimizer(std::string_view text);
/// Of torch.optim's and of packages, by the names that people use.
std::vector<std::string> recorded_optimizer_names();

/// Of FILE.py:FUNCTION in the text of --opt the file; empty: no file's code runs.
std::string file_of_optimizer(std::string_view text);

/// gpu: the simulated one. Recording takes seconds, and throws Error (environment) where there is no Python with
/// PyTorch's build for CUDA, or none with the optimizer's package.
std::shared_ptr<const OptimizerRecorder> python_optimizer(std::string text, std::string gpu);

}  // namespace gpuplan
