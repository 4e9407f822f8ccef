#include "tools/options/money.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/number_text.h"

namespace gpuplan {

namespace {

std::string short_amount(double value) {
  return value >= 1e9 ? number_text(value / 1e9) + "B" : number_text(value / 1e6) + "M";
}

}  // namespace

double usd_per_hour(const std::string& flag, const std::string& text) {
  const auto refused = [&](const std::string& why) {
    return Error(flag + " expects US dollars an hour above 0, such as 5usd/h, not \"" + text + "\"" + why,
                 ErrorKind::usage);
  };
  std::string words;
  for (const char c : text)
    if (c != ' ') words += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  std::string_view amount = words;
  const bool sign = amount.starts_with('$');
  if (sign) amount.remove_prefix(1);
  double usd = 0;
  const auto [end, problem] = std::from_chars(amount.data(), amount.data() + amount.size(), usd);
  if (problem != std::errc()) throw refused("");
  const std::string_view unit(end, static_cast<std::size_t>(amount.data() + amount.size() - end));
  const bool currency = sign ? !unit.starts_with("usd") : unit.starts_with("usd");
  const std::string_view per = currency && !sign ? unit.substr(3) : unit;
  if (!currency || (per != "/h" && per != "/hour")) throw refused(unit.empty() ? ": give the unit" : "");
  if (!std::isfinite(usd) || usd <= 0) throw refused("");
  return usd;
}

double amount(const std::string& flag, const std::string& text, double most) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double times = unit.empty() ? 1 : unit == "K" || unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "B" ? 1e9 : 0;
  if (problem != std::errc() || times == 0 || !std::isfinite(value) || value <= 0 || value * times > most)
    throw Error(flag + " expects an amount above 0 and up to " + short_amount(most) +
                    ", such as 50000 or 1.28M, not \"" + text + "\"",
                ErrorKind::usage);
  return value * times;
}

double whole_amount(const std::string& flag, const std::string& text, double most) {
  const double value = amount(flag, text, most);
  const double whole = std::round(value);
  // 4.35M is no exact product in binary.
  if (std::abs(value - whole) <= 4 * std::numeric_limits<double>::epsilon() * value) return whole;
  Error error(flag + " expects a whole number, not \"" + text + "\"", ErrorKind::usage);
  const bool has_unit = text.find_first_of("kKMB") != std::string::npos;
  throw has_unit ? error : error.help("the suffixes K, M and B mean thousands, millions and billions: " + text + "M");
}

}  // namespace gpuplan
