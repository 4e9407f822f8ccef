// Instances as tables.
#pragma once

#include <span>
#include <string>

#include "estimator/base/calendar.h"
#include "estimator/market/instance.h"

namespace gpuplan {

/// After so many days a list says that a price is old: clouds change them within weeks.
constexpr Day kStalePriceDays = 90;

/// A row for each, in the order given, with the day of each price; below it how many prices are older than
/// kStalePriceDays on the day `today`, and how old the oldest is.
std::string instance_list_text(std::span<const Instance> instances, Day today);
/// That last line by itself; "" where no price is older.
std::string stale_prices_text(std::span<const Instance> instances, Day today);
std::string instance_list_md(std::span<const Instance> instances);
/// gpuplan.instances/1: {"schema", "instances": [{"provider", "name", "gpu", ...}]}; unknown is null.
std::string instance_list_json(std::span<const Instance> instances, Day today);

/// US dollars: "0.526", "98.32"; "" of nothing.
std::string format_usd(const std::optional<double>& usd);

}  // namespace gpuplan
