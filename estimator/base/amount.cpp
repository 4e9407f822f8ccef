#include "estimator/base/amount.h"

#include <algorithm>
#include <array>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::string_view take_digits(std::string_view& text) {
  const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

}  // namespace

std::span<const AmountUnit> byte_units() {
  static constexpr std::array<AmountUnit, 9> kUnits = {{{"B", 1},
                                                        {"KiB", 1LL << 10},
                                                        {"MiB", 1LL << 20},
                                                        {"GiB", 1LL << 30},
                                                        {"TiB", 1LL << 40},
                                                        {"kB", 1'000},
                                                        {"MB", 1'000'000},
                                                        {"GB", 1'000'000'000},
                                                        {"TB", 1'000'000'000'000}}};
  return kUnits;
}

std::optional<std::int64_t> read_amount(std::string_view text, std::span<const AmountUnit> units) {
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
  const auto unit = std::ranges::find(units, text, &AmountUnit::name);
  // Beyond these digits nobody means the amount.
  if (whole.empty() || whole.size() > 12 || fraction.size() > 6 || unit == units.end()) return std::nullopt;
  std::int64_t number = 0, parts = 0, scale = 1;
  for (const char c : whole) number = number * 10 + (c - '0');
  for (const char c : fraction) {
    parts = parts * 10 + (c - '0');
    scale *= 10;
  }
  // The fraction of a unit, without a product of more than 64 bits.
  const std::int64_t rest = unit->size / scale * parts + unit->size % scale * parts / scale;
  try {
    return checked_add(checked_mul(number, unit->size), rest);
  } catch (const Error&) {
    throw Error(std::string(written) + " does not fit in 64 bits", ErrorKind::usage);
  }
}

std::int64_t share_of(std::int64_t amount, std::int64_t hundredths) {
  constexpr std::int64_t kWhole = 10'000;
  return checked_add(checked_mul(amount / kWhole, hundredths), amount % kWhole * hundredths / kWhole);
}

std::string percentage_text(std::int64_t hundredths) {
  std::string text = std::to_string(hundredths / 100);
  if (const std::int64_t rest = hundredths % 100; rest != 0)
    text += rest % 10 == 0 ? "." + std::to_string(rest / 10) : (rest < 10 ? ".0" : ".") + std::to_string(rest);
  return text + " %";
}

}  // namespace gpuplan
