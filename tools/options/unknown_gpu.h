// What is said of a name that is no GPU's.
#pragma once

#include <span>
#include <string>

#include "estimator/base/error.h"
#include "estimator/device/gpu.h"

namespace gpuplan {

/// With the nearest names of `gpus`, or the GPUs of the instance that is called so.
Error unknown_gpu(const std::string& name, std::span<const Gpu> gpus);

}  // namespace gpuplan
