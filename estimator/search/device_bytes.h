// What a step needs of a device, and nothing else of its plan.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// report_of(make_plan(...)).peak.reading.reserved_bytes, for a search that asks for little else a thousand times.
/// Throws what make_plan() throws.
std::int64_t reserved_bytes(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                            const Strategy& strategy = {});
/// CUDA context and libraries: those of --runtime, or of the GPU's file, or assumed, and what NCCL keeps of several.
std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy = {});

/// Whether a step reserves the same on both: nothing in which they differ decides a kernel or its workspace.
bool reserve_alike(const Gpu& a, const Gpu& b);

}  // namespace gpuplan
