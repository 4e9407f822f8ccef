// The expanded form of a spec: every block written in place, every expression a number.
#pragma once

#include <string>

#include "estimator/spec/model.h"

namespace gpuplan {

/// YAML that read_model reads back to an equal Model (marks and `where` aside). Ends in a newline.
std::string canonical_yaml(const Model& model);
/// An argument as a call has it: "(3, 3)", "True", "'same'".
std::string value_text(const Value& value);

}  // namespace gpuplan
