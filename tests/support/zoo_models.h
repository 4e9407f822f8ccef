// Plans of spec files of this repository, for the tests.
#pragma once

#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// The model of configs/models/NAME.yaml.
Model zoo_model(const std::string& name);
/// The model of PATH.yaml, a path in the repository, with variables set as by --set.
Model model_in_file(const std::string& path, const std::vector<Variable>& set = {});
/// Its plan on a GPU of configs/gpus ("": the assumed one).
Report plan_zoo(const std::string& name, const RunConfig& run, const std::string& gpu = "");
/// The plan of PATH.yaml, a path in the repository, with variables set as by --set.
Report plan_spec(const std::string& path, const RunConfig& run, const std::string& gpu = "",
                 const std::vector<Variable>& set = {});

}  // namespace gpuplan
