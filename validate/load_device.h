// The GPU of this machine, through the CUDA module.
#pragma once

#include <memory>

#include "validate/executor/device.h"

namespace gpuplan {

/// Throws Error (environment), one line: the module was not built, cannot be loaded, or there is no GPU.
std::unique_ptr<Device> load_device(int ordinal);
/// Whether what is there is the CUDA runtime of `gpuplan shadow`, under which kernels do nothing.
bool device_is_a_shadow();

}  // namespace gpuplan
