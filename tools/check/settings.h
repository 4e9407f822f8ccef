// Run flags as gpuplan.yaml writes them: batch: 64, optimizer: adam, clip_grad_norm: true.
#pragma once

#include "estimator/budget/read_budget.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// The keys that a check may set, with dashes: those of the flags that `gpuplan plan` takes.
RunKeys run_keys();

/// The flags of a check, its model left out. Throws Error, at the setting, for a value that no flag is switched by.
RunOptions options_of(const Check& check);
/// Where the flag stands that a message names; else `otherwise`.
SourceMark mark_of(const Error& error, const Check& check, const SourceMark& otherwise);
/// Its first setting that is about several GPUs; null where there is none.
const Setting* setting_of_gpus(const Check& check);
/// The flags of it that spread a step over several GPUs.
SeveralGpusOptions several_of(const Check& check);
/// How several GPUs share its step: gpus: 8, fsdp: param=bf16. Nothing for one GPU. Throws Error (input) at the setting
/// that is wrong, or at the check.
std::optional<Strategy> strategy_of(const Check& check);
/// What connects them.
Topology topology_of(const Check& check, const std::optional<Gpu>& gpu);
/// The other way round, of flags that were given: without places.
std::vector<Setting> settings_of(const RunOptions& options);
std::vector<Setting> settings_of(const SeveralGpusOptions& several);
/// The run that they say. Throws Error (input) at the setting that is wrong, or at the check.
RunConfig run_of(const Check& check, const RunOptions& options);

}  // namespace gpuplan
