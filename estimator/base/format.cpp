#include "estimator/base/format.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "estimator/base/integers.h"

namespace gpuplan {

namespace {

// The digits of a / b with `decimals` places (0..2), rounded half up; a >= 0, b > 0 and b <= 10^18 / 100.
std::int64_t scaled_quotient(std::int64_t a, std::int64_t b, int decimals) {
  std::int64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const std::int64_t whole = a / b, rest = a % b;
  return whole * scale + (rest * scale + b / 2) / b;
}

std::string with_point(std::int64_t digits, int decimals) {
  std::string text = std::to_string(digits);
  if (decimals == 0) return text;
  const auto places = static_cast<std::size_t>(decimals);
  if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
  text.insert(text.size() - places, ".");
  return text;
}

// Three significant digits in the largest unit that keeps the figure at 1 or more.
std::string three_digits(std::int64_t value, std::int64_t base, std::span<const std::string_view> names) {
  if (value < 0) {
    // INT64_MIN has no positive twin; the neighbour prints the same.
    return "-" + three_digits(value == INT64_MIN ? INT64_MAX : -value, base, names);
  }
  if (value < base) return std::to_string(value) + " " + std::string(names[0]);
  // Above 10^17 the arithmetic below would not fit; a thousandth in the unit before has the same first digits.
  if (base == 1000 && value >= 100'000'000'000'000'000) return three_digits(value / base, base, names.subspan(1));
  std::int64_t unit = base;
  for (std::size_t i = 1; i < names.size(); ++i, unit *= base) {
    const bool last = i + 1 == names.size();
    for (int decimals = 2; decimals >= 0; --decimals) {
      if (value / unit >= 10000) decimals = 0;
      const std::int64_t digits = scaled_quotient(value, unit, decimals);
      if (digits < 1000) return with_point(digits, decimals) + " " + std::string(names[i]);
      if (decimals == 0 && (digits < base || last)) return std::to_string(digits) + " " + std::string(names[i]);
    }
  }
  return std::to_string(value);
}

constexpr std::array<std::string_view, 5> kIec = {"B", "KiB", "MiB", "GiB", "TiB"};
constexpr std::array<std::string_view, 5> kSi = {"B", "kB", "MB", "GB", "TB"};
constexpr std::array<std::string_view, 7> kFlop = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};

// Hands the missing tenths, one each, to the rows that lost most by rounding down.
void give_out(std::vector<std::int64_t>& rounded, const std::vector<std::int64_t>& remainders, std::int64_t missing) {
  std::vector<std::size_t> order(rounded.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i, --missing) ++rounded[order[i]];
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  std::int64_t sum = 0;
  for (const std::int64_t v : values) sum = checked_add(sum, v);
  return sum;
}

}  // namespace

std::string format_bytes(std::int64_t bytes, Units units) {
  return units == Units::iec ? three_digits(bytes, 1024, kIec) : three_digits(bytes, 1000, kSi);
}

std::string format_flops(std::int64_t flops) { return three_digits(flops, 1000, kFlop); }

std::string retries_text(std::int64_t n) { return format_count(n) + (n == 1 ? " retry" : " retries"); }

std::string format_count(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::size_t first = text[0] == '-' ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

std::string format_sizes(std::span<const std::int64_t> sizes, bool unicode) {
  std::string text;
  for (const std::int64_t n : sizes) {
    if (!text.empty()) text += unicode ? "×" : "x";
    text += std::to_string(n);
  }
  return text.empty() ? "scalar" : text;
}

ColumnUnit column_unit(std::int64_t largest, Units units) {
  const bool iec = units == Units::iec;
  const std::int64_t k = iec ? 1024 : 1000;
  if (largest < 10 * k * k) return {iec ? "KiB" : "kB", k};
  if (largest < 100'000 * k * k) return {iec ? "MiB" : "MB", k * k};
  return {iec ? "GiB" : "GB", k * k * k};
}

std::int64_t in_tenths(std::int64_t value, std::int64_t unit) {
  return value < 0 ? -scaled_quotient(-value, unit, 1) : scaled_quotient(value, unit, 1);
}

std::string format_tenths(std::int64_t tenths) {
  return tenths < 0 ? "-" + with_point(-tenths, 1) : with_point(tenths, 1);
}

std::vector<std::int64_t> tenths_that_sum(std::span<const std::int64_t> values, std::int64_t unit) {
  std::vector<std::int64_t> rounded, remainders;
  std::int64_t given = 0;
  for (const std::int64_t v : values) {
    const std::int64_t whole = v / unit, rest = v % unit * 10;
    rounded.push_back(whole * 10 + rest / unit);
    remainders.push_back(rest % unit);
    given += rounded.back();
  }
  give_out(rounded, remainders, in_tenths(sum_of(values), unit) - given);
  return rounded;
}

std::vector<std::int64_t> shares_per_mille(std::span<const std::int64_t> values) {
  const std::int64_t total = sum_of(values);
  std::vector<std::int64_t> shares(values.size(), 0), remainders(values.size(), 0);
  if (total <= 0) return shares;
  // Beyond 2^53 a share in tenths of a percent does not change when both sides lose their low bits.
  std::int64_t divide = 1;
  while (total / divide > INT64_MAX / 1000) divide *= 2;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t scaled = values[i] / divide * 1000, whole = total / divide;
    shares[i] = scaled / whole;
    remainders[i] = scaled % whole;
    given += shares[i];
  }
  give_out(shares, remainders, 1000 - given);
  return shares;
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace gpuplan
