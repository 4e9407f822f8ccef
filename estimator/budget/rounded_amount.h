// Rounds a figure to the amount that is written as its limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estimator/budget/figure.h"

namespace gpuplan {

enum class Rounding : std::uint8_t { up, down };

/// "13.6 GiB" for the unit " GiB", blanks included: three digits, two decimals at most, never below (above) the amount.
/// A unit that is none counts single ones.
std::string rounded_amount(std::int64_t amount, Unit unit, std::string_view unit_text, Rounding rounding);

}  // namespace gpuplan
