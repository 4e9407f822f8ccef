// What gpuplan check --format json wrote, read again: figures to compare with.
#pragma once

#include <map>
#include <string>

#include "estimator/budget/judge.h"

namespace gpuplan {

struct SavedCheck {
  FigureValues figures;
  std::map<std::string, std::vector<ModuleFigures>> modules;  // by pattern
  std::map<std::string, std::int64_t> fits;                   // device bytes by the GPU's title
};

struct SavedChecks {
  std::string version;  // of the tool that wrote them
  std::map<std::string, SavedCheck> by_name;
};

/// Throws Error where the text is no JSON of schema gpuplan.check/1.
SavedChecks read_saved_checks(const Source& source);

}  // namespace gpuplan
