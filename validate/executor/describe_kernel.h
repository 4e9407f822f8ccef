// An operation in words, for messages.
#pragma once

#include <string>

#include "validate/executor/kernel.h"

namespace gpuplan {

/// "aten::convolution of layer1.0.conv1 (fp32[8, 3, 4, 4], fp32[6, 3, 1, 1] -> fp32[8, 6, 4, 4])": what it reads, then
/// what it writes; "none" is an argument that was not given.
std::string described(const Kernel& kernel);

}  // namespace gpuplan
