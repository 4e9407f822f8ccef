// Environment variables.
#pragma once

#include <cstdlib>
#include <string>

namespace gpuplan {

/// Its value; empty where it is not set.
inline std::string environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace gpuplan
