// The program's version, from CMake's project().
#pragma once

#include <string_view>

namespace gpuplan {

constexpr std::string_view kVersion = GPUPLAN_VERSION;

}  // namespace gpuplan
