// Environment variables.
#pragma once

#include <string>

namespace gpuplan {

/// Its value; empty where it is not set.
std::string environment(const std::string& name);

}  // namespace gpuplan
