// The map `measured` of a GPU file (estimator/device/read_gpu.h has its form).
#pragma once

#include "estimator/device/measurements.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// Throws Error at the place that is wrong.
Measurements read_measurements(const YamlNode& map);

}  // namespace gpuplan
