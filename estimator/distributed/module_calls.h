// Modules as hooks on them see a step: what forward enters and leaves, and before and after what backward runs.
// Backward hooks are autograd nodes on a module's outputs and inputs, so that a module whose input needs no gradient
// never ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// One that forward calls. A list of modules is none: it has no forward. Nor is an operation without a module.
struct CalledModule {
  std::string path;                      // "" is the model
  std::vector<std::int32_t> parameters;  // its own, of Graph::parameters, ascending; a tied one is that of each module
};

struct ModuleCall {
  enum class Kind : std::uint8_t { enter, leave, before_backward, after_backward };
  Kind kind = Kind::enter;
  std::int32_t module = 0;  // of ModuleCalls::modules
  Phase phase = Phase::forward;
  std::int32_t step = 0;  // before this one of Schedule::ops; the end of the phase: after its last one
};

struct ModuleCalls {
  std::vector<CalledModule> modules;
  std::vector<ModuleCall> calls;            // in the order they come; what a checkpoint runs again is entered again
  std::vector<std::int32_t> without_after;  // modules with parameters of which backward never ends, as they begin it
};

ModuleCalls module_calls(const Graph& graph, const Schedule& schedule);

}  // namespace gpuplan
