// Figures of plans that were saved: the JSON of gpuplan plan and of gpuplan shadow.
#pragma once

#include <string>

#include "estimator/base/error.h"
#include "estimator/compare/figures.h"

namespace gpuplan {

struct SavedFigures {
  Figures figures;
  std::string schema;   // "gpuplan.plan/1", "gpuplan.shadow/1"
  std::string version;  // of the gpuplan that wrote it: another one's figures may differ by its rules
};

/// Whether a text is meant to be one: a JSON object with a schema of gpuplan's.
bool is_saved_plan(const std::string& text);

/// Throws Error: it is not JSON (with the place), of another schema, or lacks a figure.
SavedFigures read_figures(const Source& source);

}  // namespace gpuplan
