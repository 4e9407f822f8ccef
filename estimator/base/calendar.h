// Days of the proleptic Gregorian calendar, as text has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuplan {

/// Days since 1970-01-01.
using Day = std::int64_t;

/// "2026-11-22" as a day; nothing for what is no date of the calendar.
std::optional<Day> day_of(std::string_view date);
/// The oldest date in a text: 2022-05-05 of "2026-08-03 (host) + 2022-05-05 (GPU add-on)".
std::optional<Day> oldest_day(std::string_view text);
/// "2026-11-22"
std::string date_text(Day day);

}  // namespace gpuplan
