// Memory that operations needed but the plan does not contain.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpuplan::cuda {

/// The most that one operation lacked.
struct Lack {
  std::int64_t bytes = 0;
  std::string layer;
};

/// By a sentence on what it is.
using Lacks = std::map<std::string, Lack>;

}  // namespace gpuplan::cuda
