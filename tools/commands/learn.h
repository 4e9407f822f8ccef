// gpuplan shadow --learn FILE --vary NAME=V,V,V -- COMMAND: the command at each value, and from its runs a trace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "estimator/trace/size_function.h"
#include "tools/options/shadow_options.h"
#include "validate/shadow/host/read_session.h"
#include "validate/shadow/host/run_report.h"

namespace gpuplan {

/// --vary, one text a variable. Throws Error (usage) where one is not understood, has fewer than three values, or the
/// command does not say {NAME}, and for flags that a trace leaves no room for.
std::vector<TraceVariable> learned_variables(const ShadowOptions& options);

struct CommandRun {
  shadow::Ending ending;
  shadow::SessionRecord session;
};

/// Runs the command by `run_command`, once for each value, and writes the trace. What is said goes to standard error.
/// Returns the exit code: that of a command that failed, 0 where the trace is written. Throws Error.
int learn(const ShadowOptions& options, const ShadowRun& run,
          const std::function<CommandRun(const std::vector<std::string>&)>& run_command);

}  // namespace gpuplan
