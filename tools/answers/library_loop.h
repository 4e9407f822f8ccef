// gpuplan plan MODEL --like trl-sft|trl-dpo: the loop of a library that gpuplan has no rules of. Three steps of the
// library's own trainer are learned on a simulated GPU (tools/python/gpuplan/library_loops.py), and planned at any
// batch.
#pragma once

#include <string_view>

#include "tools/options/run_options.h"

namespace gpuplan {

/// Whether --like names a library whose trainer is run.
bool is_library_loop(std::string_view like);

/// The flags with which the learned steps are planned, a trace in the model's place. Throws Error: usage for a flag
/// that the loop is not told, and (environment) where there is no Python with the library and PyTorch's build for CUDA.
RunOptions learned_library_loop(const RunOptions& options);

}  // namespace gpuplan
