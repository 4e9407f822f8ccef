// A whole execution on the host device, for tests of what a plan frees.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/host_device/host_device.h"
#include "tests/host_device/small_models.h"

namespace gpuplan {

/// Every block holds NaN when it comes and, unless everything is kept, when it goes.
inline ExecutionResult executed(const Executable& e, bool keeps_everything) {
  HostDevice device(std::int64_t{1} << 40);  // what is not freed and not touched takes no memory
  ExecutionOptions options;
  options.poison = true;
  options.keeps_everything = keeps_everything;
  options.collects = true;
  ExecutionResult result = run(device, e.step, options);
  REQUIRE(!result.within.out_of_memory);
  return result;
}

/// A line each.
inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace gpuplan
