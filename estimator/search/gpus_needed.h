// How many GPUs of a kind a step needs.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/device/gpu.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct GpusNeeded {
  std::int64_t gpus = 0;
  std::int64_t device_bytes = 0;  // of rank 0, which has no less than any other
  std::int64_t batch = 0;         // of all of them
};

/// The fewest GPUs that share the step's batch as `strategy` says, in equal parts, and fit it, each with
/// `usable_bytes`: so many as it has, twice, four times as many, ... Of a batch with no more than a sample for each,
/// more GPUs have a sample each, too. Nothing where none of up to `most` do, or the run is none for several.
std::optional<GpusNeeded> gpus_needed(const Model& model, Catalog catalog, const RunConfig& run, Strategy strategy,
                                      const Gpu& gpu, std::int64_t usable_bytes, std::int64_t most = 256);

}  // namespace gpuplan
