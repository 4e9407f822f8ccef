// How many GPUs of a kind a step needs.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/device/gpu.h"
#include "estimator/graph/layer.h"
#include "estimator/parallel/strategy.h"
#include "estimator/run_config.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct GpusNeeded {
  std::int64_t gpus = 0;
  std::int64_t device_bytes = 0;  // of rank 0, which has no less than any other
};

/// The fewest of 2, 4, 8, ... GPUs that share the step's batch in equal parts and fit it, each with `usable_bytes`;
/// nothing where none of up to `most` do, or the run is none for several.
std::optional<GpusNeeded> gpus_needed(const Model& model, Catalog catalog, const RunConfig& run, DataParallel kind,
                                      const Gpu& gpu, std::int64_t usable_bytes, std::int64_t most = 256);

}  // namespace gpuplan
