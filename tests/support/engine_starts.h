// Starts of engines, as the files of tests/serving give them.
#pragma once

#include <string>

#include "estimator/base/csv.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// A file of tests/serving, read.
std::string serving_text(const std::string& file);
CsvTable serving_table(const std::string& file);

/// A model of tests/serving/models, or "zoo:NAME".
ServedModel serving_model(const std::string& model, const std::string& gpu);

/// As gpuplan serve plans it with `flags`.
EngineStart serving_start(const std::string& model, const std::string& gpu, const std::string& flags);

}  // namespace gpuplan
