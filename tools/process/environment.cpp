#include "tools/process/environment.h"

#include <cstdlib>

namespace gpuplan {

std::string environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace gpuplan
