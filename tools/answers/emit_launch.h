// gpuplan plan --emit: what starts the plan, for the program that runs it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/launch/launch.h"
#include "tools/answers/planning.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

struct LaunchAsked {
  LaunchTarget target = LaunchTarget::torchrun;
  std::vector<std::string> files;  // of -o, that are to hold it
};

/// --emit, and what of -o is to hold it: a script, a config. Nothing where it is not given. Throws Error (usage) for
/// words that are not known, for flags that do not go with it, and where a file would be replaced that is none of
/// gpuplan's.
std::optional<LaunchAsked> launch_asked(const std::string& emit, const RunOptions& run, OutputOptions& output);

/// Writes it and says what starts it: the file to standard output and the command to standard error, or, with -o, the
/// file there and the command to standard output. A plan that does not fit writes nothing. Returns the exit code.
/// Throws Error (usage) for what the target has no words for.
int emit_launch(const LaunchAsked& asked, const Planning& planning, const PlannedReport& planned, const RunOptions& run,
                const OutputOptions& output);
/// The same of a plan by Megatron-LM's formulas.
int emit_stages(const LaunchAsked& asked, const Planning& planning, const Strategy& strategy, const RunOptions& run,
                const SeveralGpusOptions& several, const OutputOptions& output);

}  // namespace gpuplan
