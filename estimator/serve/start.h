// A start of the engine that the settings name.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// On each of `settings.tensor_ranks` such GPUs, whose memory is known. Throws Error (usage) for settings that no GPU
/// could make true, such as a length beyond the model's.
EngineStart start_engine(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
