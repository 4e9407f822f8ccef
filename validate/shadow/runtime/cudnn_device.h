// The GPU as cuDNN is told it.
#pragma once

#include <string>

#include "validate/shadow/session.h"

namespace gpuplan::shadow::cudnn {

/// The JSON that a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR takes (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, cuDNN 9.8).
std::string describe(const GpuDescription& gpu);

/// The device version cuDNN knows a GPU by: 900 is compute capability 9.0.
constexpr int device_version(const GpuDescription& gpu) { return 100 * gpu.major + 10 * gpu.minor; }

}  // namespace gpuplan::shadow::cudnn
