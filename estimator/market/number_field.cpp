#include "estimator/market/number_field.h"

#include <charconv>
#include <cmath>

namespace gpuplan {

std::optional<double> number_field(const CsvField& field, std::string_view what) {
  constexpr double kMost = 1e12;
  if (field.text.empty()) return std::nullopt;
  double value = 0;
  const char* const end = field.text.data() + field.text.size();
  const auto [rest, error] = std::from_chars(field.text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value))
    throw Error(std::string(what) + " is a number, not \"" + field.text + "\"").at(field.mark);
  if (value > kMost) throw Error(std::string(what) + " must be 1e12 at most, not " + field.text).at(field.mark);
  if (value <= 0)
    throw Error(std::string(what) + " is above 0").at(field.mark).label("leave it empty where it is not known");
  return value;
}

}  // namespace gpuplan
