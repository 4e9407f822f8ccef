// MODEL --like trl-sft|trl-dpo, with --peft, or with --weights int4:torchao and its like: a library's
// loop, adapters or form of weights that gpuplan has no rules of. Three steps of the library's own code are learned on
// a simulated GPU (tools/python/gpuplan/library_loops.py).
#pragma once

#include <string>

#include "estimator/device/gpu.h"
#include "estimator/search/figures.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Whether the flags name a library whose code is run.
bool is_library_loop(const RunOptions& options);

/// The flag that names it: "--like trl-sft".
std::string library_asked(const RunOptions& options);

/// The run, as far as flags that are not the library's say it. Throws Error (usage).
RunConfig library_config(const RunOptions& options);

/// The flags with which the learned steps are planned, a trace in the model's place; of several GPUs one rank is run.
/// Throws Error: usage for a flag that the loop is not told, and (environment) where there is no Python with the
/// library and PyTorch's build for CUDA.
RunOptions learned_library_loop(const RunOptions& options, const SeveralGpusOptions& several = {});

/// The learned steps' figures, with the verdict of a GPU. Throws what learned_library_loop() throws.
PlannedFigures library_figures(const RunOptions& options, const Gpu* gpu, const SeveralGpusOptions& several = {});

}  // namespace gpuplan
