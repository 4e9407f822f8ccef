// From the text of gpuplan.yaml to a Budget.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "estimator/budget/budget.h"

namespace gpuplan {

/// The words of run flags that a check may set, with the first name of the flag that each means: "dtype" is
/// "precision". An underscore is a dash.
using RunKeys = std::map<std::string, std::string>;

/// Throws Error, with the place, for anything that is not a well-formed budget: unknown and duplicate keys, names that
/// stand twice, amounts without their unit, limits that contradict each other, a matrix of nothing, a mute without a
/// reason. Models, GPUs and the values of run flags are not looked at.
Budget read_budget(std::shared_ptr<const Source> source, const RunKeys& run_keys);

/// JSON Schema (draft 2020-12) of the file, for completion and a first check in editors. Ends in a newline.
std::string budget_json_schema(const RunKeys& run_keys);

}  // namespace gpuplan
