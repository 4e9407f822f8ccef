// A model in Python that cannot be exported: its step is learned on a simulated GPU, and planned at any batch.
#pragma once

#include <optional>

#include "tools/options/run_options.h"

namespace gpuplan {

/// The flags with which the learned step of the model is planned, a trace in the model's place, where it cannot be
/// exported or `wanted` says that it is not to be; what is learned, and why, is said on standard error. Nothing where
/// the model is exported, or is not Python's. Throws Error: the model can neither be exported nor run, or a flag asks
/// for what a step of the model itself is not told.
std::optional<RunOptions> learned_instead(const RunOptions& options, bool wanted);

}  // namespace gpuplan
