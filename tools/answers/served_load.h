// A load on an engine that starts.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/report/serve_load.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"
#include "tools/options/load_options.h"

namespace gpuplan {

/// Of a start that succeeded; the curve is left out where `curve` is false. Throws Error where the GPU's speed is not
/// known.
LoadAnswer served_load(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings,
                       const EngineStart& start, const AskedLoad& asked, bool curve = true);

}  // namespace gpuplan
