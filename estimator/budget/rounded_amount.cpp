#include "estimator/budget/rounded_amount.h"

#include <algorithm>

namespace gpuplan {

std::string rounded_amount(std::int64_t amount, Unit unit, std::string_view unit_text, Rounding rounding) {
  const std::string_view name = unit_text.substr(std::min(unit_text.find_first_not_of(' '), unit_text.size()));
  const std::span<const AmountUnit> units = units_of(unit);
  const auto known = std::ranges::find(units, name, &AmountUnit::name);
  const std::int64_t size = known == units.end() ? 1 : known->size;
  const std::int64_t whole = amount / size, rest = amount % size;
  std::int64_t scale = whole >= 100 ? 1 : whole >= 10 ? 10 : 100;
  if (size < scale) scale = 1;
  // rest * scale / size, without a product of more than 64 bits.
  const bool wide = size > std::int64_t{1} << 55;
  const std::int64_t numerator = wide ? rest : rest * scale, divisor = wide ? size / scale : size;
  std::int64_t digits = whole * scale + numerator / divisor;
  if (rounding == Rounding::up && numerator % divisor != 0) ++digits;
  digits = std::max<std::int64_t>(digits, 1);
  std::string text = std::to_string(digits / scale);
  if (const std::int64_t decimals = digits % scale; decimals != 0) {
    std::string places = std::to_string(scale + decimals).substr(1);
    while (places.ends_with('0')) places.pop_back();
    text += "." + places;
  }
  return text + std::string(unit_text);
}

}  // namespace gpuplan
