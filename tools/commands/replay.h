// gpuplan replay.
#pragma once

#include <string>

#include "estimator/allocator/trace.h"

namespace CLI {
class App;
}

namespace gpuplan {

/// A trace of allocator events: a file, a pipe or "-". Throws Error.
Trace open_trace(const std::string& name);

/// Registers `gpuplan replay`; its callback sets exit_code: 0, or 1 when --check finds a difference.
void add_replay_command(CLI::App& app, int& exit_code);

}  // namespace gpuplan
