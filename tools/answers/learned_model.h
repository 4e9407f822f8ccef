// A model in Python that cannot be exported, or whose spec differs: its step is learned on a simulated GPU, and planned
// at any batch.
#pragma once

#include <optional>

#include "tools/options/run_options.h"

namespace gpuplan {

/// When a step is learned: where the spec is refused or differs, in any case (--learn), or not at all (--no-learn).
enum class Learning : unsigned char { by_itself, always, never };

/// The flags with which the learned step of the model is planned, a trace in the model's place, where it cannot be
/// exported, its spec differs from its own steps, or `learning` says so; what is learned, and why, is said on standard
/// error. Nothing where the spec is planned: it is equal, `learning` says so, a flag asks for what a step of the model
/// itself is not told, or the model is not Python's. Throws Error: the model can neither be exported nor run, or what
/// `learning` says cannot be done.
std::optional<RunOptions> learned_instead(const RunOptions& options, Learning learning);

}  // namespace gpuplan
