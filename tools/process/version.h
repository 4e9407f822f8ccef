// The program's version, from CMake's project(), and what it says of a bug of its own.
#pragma once

#include <exception>
#include <string_view>

#include "estimator/base/error.h"

namespace gpuplan {

constexpr std::string_view kVersion = GPUPLAN_VERSION;

/// What is said of an exception that is no Error: "internal error in gpuplan 0.1.0: ...".
Error internal_error(const std::exception& bug);

}  // namespace gpuplan
