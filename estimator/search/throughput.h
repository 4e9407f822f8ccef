// How long the step of a fit takes, on one GPU and on several.
#pragma once

#include <optional>

#include "estimator/plan/timing.h"
#include "estimator/search/fit.h"

namespace gpuplan {

/// A ThroughputOf of the time model: one rank's step, and what of its communication backward and forward do not hide.
/// Nothing where the GPU's rates or a link are not known.
std::optional<StepThroughput> pace_of_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                           const Strategy& strategy, const Topology& topology, HostCopy copy);

}  // namespace gpuplan
