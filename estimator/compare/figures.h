// The figures of a plan that two of them are compared by, whether planned now or saved earlier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/plan/report.h"

namespace gpuplan {

struct Amount {
  std::string name;
  std::int64_t value = 0;
};

struct Figures {
  std::string model;
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;  // peaks
  // Absent where they are not known: of a recorded run, or without the times of a GPU.
  std::optional<std::int64_t> parameters, step_flops, step_nanoseconds;
  // What is alive at the allocated peak, in bytes: each list sums to allocated_bytes.
  std::vector<Amount> categories, modules;
  // Of a run that was recorded, and a plan beside one: peaks of a step's phases, and each allocation that is alive at
  // the peak, by line, in the bytes that were asked for: what is charged depends on where it lies.
  std::vector<Amount> phases, tensors;
  // By the first part of layers' paths; they sum to `parameters` and `step_flops`. Empty where those are absent.
  std::vector<Amount> module_parameters, module_flops;
  std::vector<std::pair<std::string, std::string>> run;  // "batch" is "8"
};

/// What no part of a list accounts for: "everything else".
inline constexpr const char* kEverythingElse = "everything else";

Figures figures_of(const Report& report);

/// Amounts of layers ("layer1.0.conv1") summed by the first part of their names ("layer1"), in the order of the first.
std::vector<Amount> by_module(const std::vector<Amount>& layers);

/// Adds to a list what it lacks of `total`, as a part of its own where that is not 0. Throws Error for a sum that does
/// not fit in 64 bits.
void complete(std::vector<Amount>& parts, std::int64_t total);

}  // namespace gpuplan
