// How much a figure may grow: --fail-on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/compare/differences.h"

namespace gpuplan {

struct GrowthLimit {
  std::string text;  // as it was asked for: "peak +5%"
  Metric metric = Metric::peak;
  // One of them. Of the base: 50'000 is 5 %.
  std::optional<std::int64_t> parts_per_million;
  std::optional<std::int64_t> amount;  // in the metric's unit
};

/// Whether a figure has grown by more than it may; exactly, for any size. From a base of 0 every growth is more than
/// any percentage.
bool exceeds(const Change& change, const GrowthLimit& limit);

}  // namespace gpuplan
