// Which flags leave no instance of what fits.
#pragma once

#include <span>
#include <string>

#include "estimator/report/fit_table.h"

namespace gpuplan {

/// "--spot leaves no instance with it: no spot price is known", where something fits and nothing is chosen: the flag
/// without which an instance would remain, or all of them.
std::string why_not_rented(const FitReport& report, std::span<const Instance> instances);

}  // namespace gpuplan
