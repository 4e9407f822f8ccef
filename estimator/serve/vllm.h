// A start of vLLM 0.33.0: what it takes before its cache, the tokens that the cache then has, and whether it starts.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// On each of `settings.tensor_ranks` such GPUs. `gpu` has a known memory. Throws Error (usage) for settings that no
/// GPU could make true: a length beyond the model's, ranks that do not divide its heads.
EngineStart start_vllm(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
