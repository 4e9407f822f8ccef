// What gpuplan check --format json wrote, read again: figures to compare with.
#pragma once

#include <map>
#include <string>

#include "estimator/budget/judge.h"

namespace gpuplan {

struct SavedChecks {
  std::string version;                      // of the tool that wrote them
  std::map<std::string, Measured> by_name;  // modules: one list for each pattern, in the order of the check
};

/// Throws Error where the text is no JSON of schema gpuplan.check/1.
SavedChecks read_saved_checks(const Source& source);

}  // namespace gpuplan
