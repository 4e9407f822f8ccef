// What renting the GPU of a check costs.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "estimator/market/instance.h"
#include "estimator/plan/timing.h"

namespace gpuplan {

struct SamplePrice {
  std::int64_t micro_usd = 0;  // of a million samples
  std::string made_of;         // "aws g5g.xlarge, 0.420 USD/h a GPU, 2026-07-20"
};

/// On the cheapest instance with that GPU, at a GPU's share of its price. Nothing where none has a price, or a step has
/// no samples.
std::optional<SamplePrice> sample_price(const StepTime& time, const std::string& gpu,
                                        std::span<const Instance> instances);

}  // namespace gpuplan
