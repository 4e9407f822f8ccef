// What the plan says of memory beside what an execution measured.
#pragma once

#include "validate/validation.h"

namespace gpuplan {

/// Fills rows, phases and unaccounted_bytes from the plan, `before` and what was measured. `planned`: the plan's phases
/// on that device. `process_bytes`: one a reading.
void compare_memory(Validation& validation, const std::vector<PhaseRow>& planned, const ExecutionResult& measured,
                    const std::vector<std::optional<std::int64_t>>& process_bytes);

}  // namespace gpuplan
