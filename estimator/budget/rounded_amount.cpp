#include "estimator/budget/rounded_amount.h"

#include <algorithm>

namespace gpuplan {

namespace {

// Less than a hundredth of the unit: the largest one that it is a whole of, or single ones.
std::string in_smaller_unit(std::int64_t amount, Unit unit, std::string_view unit_text, std::int64_t size,
                            Rounding rounding) {
  const AmountUnit* best = &units_of(unit).front();
  for (const AmountUnit& smaller : units_of(unit))
    if (smaller.size < size && smaller.size <= amount && smaller.size > best->size) best = &smaller;
  const std::string text = (unit_text.starts_with(' ') ? " " : "") + std::string(best->name);
  return best->size < size ? rounded_amount(std::max<std::int64_t>(amount, 1), unit, text, rounding)
                           : "1" + std::string(unit_text);
}

}  // namespace

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
  if (digits == 0) return in_smaller_unit(amount, unit, unit_text, size, rounding);
  std::string text = std::to_string(digits / scale);
  if (const std::int64_t decimals = digits % scale; decimals != 0) {
    std::string places = std::to_string(scale + decimals).substr(1);
    while (places.ends_with('0')) places.pop_back();
    text += "." + places;
  }
  return text + std::string(unit_text);
}

}  // namespace gpuplan
