#include "validate/validation_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

std::string decimal(double value, std::chars_format form, int digits) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, form, digits);
  return error == std::errc{} ? std::string(text.data(), end) : "?";
}
std::string fixed(double value, int digits) { return decimal(value, std::chars_format::fixed, digits); }

// Three significant digits, as amounts of bytes have.
std::string three_digits(double value) { return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2); }

std::string share_text(double share) { return fixed(share * 100, 1) + " %"; }

const std::vector<TimeRow>& rows_of(const StepTimes& times, TimesBy by) {
  switch (by) {
    case TimesBy::layer: return times.layers;
    case TimesBy::operation: return times.operations;
    default: return times.classes;
  }
}

std::string heading(TimesBy by) {
  return by == TimesBy::layer ? "layer" : by == TimesBy::operation ? "operation" : "class";
}

}  // namespace

std::string bytes_text(std::int64_t n, const TextStyle& style) {
  if (n < 0) return "-" + bytes_text(-n, style);
  return style.exact_bytes ? format_count(n) : format_bytes(n, style.units);
}

// 0 is told from what rounds to it.
std::string percent_text(double share) {
  if (share == 0) return "0 %";
  const std::string sign = share < 0 ? "-" : "+";
  if (std::abs(share) < 0.0005) return sign + "<0.1 %";
  return sign + share_text(std::abs(share));
}

std::string significant_text(double value, int digits) { return decimal(value, std::chars_format::general, digits); }

std::string times_text(const StepTimes& times, std::int64_t batch, const TextStyle& style) {
  const Spread step = spread_of(times.steps_ms);
  if (step.median <= 0) return "";
  std::string text = "  step  median " + three_digits(step.median) + " ms, " + three_digits(step.least) + " to " +
                     three_digits(step.most) + " in " + std::to_string(times.steps_ms.size()) +
                     (style.unicode ? " steps · " : " steps - ") +
                     format_count(std::llround(static_cast<double>(batch) / step.median * 1000)) + " samples/s\n";
  if (!times.peaks.known()) return text + "  roofline  not known, since this GPU's clocks are not known\n";
  return text + "  roofline  " + share_text(times.least_ms / step.median) + ": " + three_digits(times.least_ms) +
         " ms is the least that this GPU could take at its peak FLOP/s and bytes/s\n";
}

std::string times_table(const StepTimes& times, const TimesTable& table, const TextStyle&) {
  if (table.by == TimesBy::nothing) return "";
  const std::vector<TimeRow>& rows = rows_of(times, table.by);
  const std::size_t shown = table.max_rows == 0 ? rows.size() : std::min(rows.size(), std::size_t(table.max_rows));
  const double marked = spread_of(times.marked_ms).median;
  TextTable text({left, right, right, right, right, right, right, right, right});
  text.row({heading(table.by), "forward", "backward", "update", "ms", "of step", "TFLOP/s", "GB/s", "roofline"});
  for (const TimeRow& r : std::span(rows).first(shown))
    text.row({r.name, fixed(r.forward_ms, 3), fixed(r.backward_ms, 3), fixed(r.update_ms, 3),
              fixed(r.total_ms.median, 3), marked > 0 ? share_text(r.total_ms.median / marked) : "",
              fixed(r.flops_per_second() / 1e12, 1), fixed(r.bytes_per_second() / 1e9, 0),
              r.least_ms > 0 ? share_text(r.roofline()) : ""});
  std::string out = "\n" + text.text();
  if (shown < rows.size()) out += "  [" + std::to_string(rows.size() - shown) + " more rows: -n 0]\n";
  return out + "  with an event recorded after every operation, a step took " + three_digits(marked) + " ms\n";
}

}  // namespace gpuplan
