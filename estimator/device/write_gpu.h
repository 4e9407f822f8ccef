// Gpu -> the text of its file, as estimator/device/read_gpu.h describes it.
#pragma once

#include <string>

#include "estimator/device/gpu.h"

namespace gpuplan {

/// In double quotes, which YAML reads as JSON does; line ends become spaces.
std::string quoted_yaml(const std::string& text);

/// read_gpu() makes the same Gpu of it, whose name is the file's.
std::string gpu_yaml(const Gpu& gpu);

}  // namespace gpuplan
