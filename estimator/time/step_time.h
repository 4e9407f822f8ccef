// How long a step takes, PyTorch eager: the host calls one operation after another and the GPU runs their kernels in
// that order, each when it was launched and the one before is done. Where kernels are shorter than the calls the GPU
// waits, and the host decides.
#pragma once

#include <optional>

#include "estimator/device/gpu.h"
#include "estimator/graph/layer.h"
#include "estimator/run_config.h"
#include "estimator/spec/model.h"
#include "estimator/time/time_model.h"
#include "estimator/time/timing.h"

namespace gpuplan {

/// Nothing where the GPU's peaks, or the link that pinned memory takes, are not known, and for steps with tensors or an
/// optimizer on the host. Throws as plan() does.
std::optional<StepTime> step_time(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                  HostCopy copy = HostCopy::pinned, const TimeModel& constants = {});

}  // namespace gpuplan
