#include "estimator/base/calendar.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

namespace gpuplan {

std::optional<Day> day_of(std::string_view date) {
  if (date.size() != 10 || date[4] != '-' || date[7] != '-') return std::nullopt;
  const auto number = [&](std::size_t from, std::size_t digits) {
    unsigned value = 0;
    const char* const end = date.data() + from + digits;
    const auto [rest, error] = std::from_chars(date.data() + from, end, value);
    return error == std::errc() && rest == end ? value : 0U;
  };
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                        std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2))};
  if (!day.ok() || number(0, 4) < 1970) return std::nullopt;
  return std::chrono::sys_days(day).time_since_epoch().count();
}

std::optional<Day> oldest_day(std::string_view text) {
  std::optional<Day> oldest;
  for (std::size_t at = 0; at + 10 <= text.size(); ++at)
    if (const std::optional<Day> day = day_of(text.substr(at, 10))) oldest = oldest ? std::min(*oldest, *day) : day;
  return oldest;
}

std::string date_text(Day day) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day))};
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()));
  return text;
}

}  // namespace gpuplan
