// A GPU's figures as JSON, for the writers of GPU lists.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/report/json_parts.h"

namespace gpuplan::gpus {

/// {"name", "title", "aliases", ...}; unknown is null.
Json gpu_json(const Gpu& gpu);
/// The same keys of a GPU of which nothing is known.
Json no_gpu_json();
/// gpuplan.gpus/1: {"schema", "gpus": list}.
std::string list_json(const Json& list);
/// The same figures, a GPU a line under a heading; unknown is empty. All have the keys of the first.
std::string list_csv(std::span<const Json> gpus);

/// "8.0"
std::string capability(const Gpu& gpu);

}  // namespace gpuplan::gpus
