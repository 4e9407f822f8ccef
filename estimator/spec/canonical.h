// The expanded form of a spec: every block written in place, every expression a number.
#pragma once

#include <string>

#include "estimator/spec/model.h"

namespace gpuplan {

/// YAML that read_model reads back to an equal Model (marks and `where` aside). Ends in a newline.
std::string canonical_yaml(const Model& model);

}  // namespace gpuplan
