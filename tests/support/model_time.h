// The time of a model's step, lowered for it alone.
#pragma once

#include <optional>

#include "estimator/time/step_time.h"

namespace gpuplan {

inline std::optional<StepTime> step_time(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                         HostCopy copy = HostCopy::pinned, const TimeModel& constants = {}) {
  if (!why_no_time(run, gpu, copy).empty()) return std::nullopt;
  return step_time(make_step(model, catalog, run, gpu, {}, true), copy, constants);
}

}  // namespace gpuplan
