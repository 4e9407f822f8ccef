// Finding a GPU by what people call it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "estimator/device/gpu.h"

namespace gpuplan {

/// A name in lower case, without spaces, line ends, dashes and underscores; "80g" at the end is "80gb".
std::string gpu_key(std::string_view name);

/// The first GPU whose name, title or one of whose aliases is `name`, or null. Case does not matter, and neither
/// do spaces, dashes and underscores: "RTX 4090", "rtx-4090" and "rtx4090" are one name, and so are "a100-80g" and
/// "A100 80GB". Where none is, who makes it may stand before the name ("nvidia-tesla-...", "GeForce ..."), and the
/// memory on its box behind it: "l4-24g".
const Gpu* find_gpu(std::span<const Gpu> gpus, std::string_view name);

}  // namespace gpuplan
