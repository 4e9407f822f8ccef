// Starts of an engine: the one that was asked for, and the flags that make it start.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// The decoder that `model` is, as engines serve it. Throws Error where it is none.
ServedModel decoder_of(const Model& model, const Gpu& gpu);

/// The start, and where it fails, hints that were tried.
EngineStart tried_start(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
