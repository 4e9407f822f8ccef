// A computation of cuDNN as a launch with where each operand lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "validate/shadow/runtime/cudnn_abi.h"

namespace gpuplan::shadow::cudnn {

/// "x 0x7f0012345600 65536 bytes": where a tensor or a filter lies, and how far it reaches.
std::string place(const char* name, const void* data, std::uint64_t bytes);

/// Bytes from its first element to its last.
std::uint64_t extent(const Tensor& t);

}  // namespace gpuplan::shadow::cudnn
