// Parts of the screen of `gpuplan validate`. The same text in every locale.
#pragma once

#include <cstdint>
#include <string>

#include "validate/validation.h"

namespace gpuplan {

std::string bytes_text(std::int64_t bytes, const TextStyle& style);
/// "+1.5 %", "-<0.1 %"; "0 %" of 0 alone.
std::string percent_text(double share);
/// "2.30259"
std::string significant_text(double value, int digits);

/// How long a step takes, and how far that is from the least that the GPU can take.
std::string times_text(const StepTimes& times, std::int64_t batch, const TextStyle& style);
/// "" where no table is asked for.
std::string times_table(const StepTimes& times, const TimesTable& table, const TextStyle& style);

}  // namespace gpuplan
