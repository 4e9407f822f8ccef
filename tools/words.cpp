#include "tools/words.h"

#include <array>
#include <charconv>
#include <limits>

#include "estimator/report/format.h"

namespace gpuplan {

std::string either(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

Error unknown_word(std::string_view flag, std::string_view word, const std::vector<std::string>& words) {
  return Error(std::string(flag) + " expects " + either(words) + ", not \"" + std::string(word) + "\"" +
                   did_you_mean(word, words),
               ErrorKind::usage);
}

std::int64_t whole_number(std::string_view flag, std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t n = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem == std::errc() && end == text.data() + text.size() && n >= least && n <= most) return n;
  throw Error(std::string(flag) + " expects a whole number from " + format_count(least) + " to " + format_count(most) +
                  ", not \"" + std::string(text) + "\"",
              ErrorKind::usage);
}

namespace {

std::optional<std::int64_t> unit_of_size(std::string_view name) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array<Unit, 9> kUnits = {{{"B", 1},
                                           {"KiB", 1LL << 10},
                                           {"MiB", 1LL << 20},
                                           {"GiB", 1LL << 30},
                                           {"TiB", 1LL << 40},
                                           {"kB", 1'000},
                                           {"MB", 1'000'000},
                                           {"GB", 1'000'000'000},
                                           {"TB", 1'000'000'000'000}}};
  for (const Unit& unit : kUnits)
    if (unit.name == name) return unit.bytes;
  return std::nullopt;
}

std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

}  // namespace

std::optional<std::int64_t> size_in_bytes(std::string_view text) {
  if (text == "0") return 0;  // in every unit
  const std::string_view written = text;
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::optional<std::int64_t> unit = unit_of_size(text);
  // Beyond these digits nobody means the size.
  if (whole.empty() || whole.size() > 12 || fraction.size() > 6 || !unit) return std::nullopt;
  std::int64_t number = 0, scale = 1;
  for (const char c : whole) number = number * 10 + (c - '0');
  if (number >= std::numeric_limits<std::int64_t>::max() / *unit)
    throw Error("the size " + std::string(written) + " does not fit in 64 bits", ErrorKind::usage);
  std::int64_t bytes = number * *unit;
  for (const char c : fraction) {
    scale *= 10;
    bytes += (c - '0') * *unit / scale;
  }
  return bytes;
}

}  // namespace gpuplan
