// Step time and throughput for `gpuplan fit`, on one GPU or several.
#pragma once

#include <optional>

#include "estimator/plan/timing.h"
#include "estimator/search/fit.h"

namespace gpuplan {

/// A ThroughputOf of the time model: one rank's step, lowered once, and what of its communication backward and forward
/// do not hide. Nothing where the GPU's rates or a link are not known.
ThroughputOn throughput_of(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                           const Strategy& strategy, HostCopy copy);

}  // namespace gpuplan
