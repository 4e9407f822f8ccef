// Plans of the zoo's files, for the tests.
#pragma once

#include <string>

#include "estimator/plan.h"

namespace gpuplan {

/// configs/models/NAME.yaml of this repository, on a GPU of configs/gpus ("": the assumed one).
Model zoo_model(const std::string& name);
Report plan_zoo(const std::string& name, const RunConfig& run, const std::string& gpu = "");

}  // namespace gpuplan
