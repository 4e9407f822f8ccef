#include "estimator/report/change_text.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/integers.h"
#include "estimator/report/time_text.h"

namespace gpuplan {

namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

std::string amount_text(Metric metric, std::int64_t amount, const TextStyle& style) {
  switch (metric) {
    case Metric::peak:
    case Metric::reserved:
    case Metric::device: return styled_bytes(amount, style);
    case Metric::parameters: return format_count(amount);
    case Metric::step_flops: return format_flops(amount);
    case Metric::step_time: return format_seconds(static_cast<double>(amount) / 1e9);
  }
  return "";
}

std::string delta_text(Metric metric, std::int64_t delta, const TextStyle& style) {
  if (delta == 0) return style.unicode ? "±0" : "0";
  return (delta > 0 ? "+" : "-") + amount_text(metric, delta > 0 ? delta : -delta, style);
}

std::string percent_text(const Change& change) {
  if (change.delta() == 0) return "0.0 %";
  const std::optional<std::int64_t> tenths = per_mille(change);
  if (!tenths) return "new";
  return signed_tenths(*tenths, change.delta()) + " %";
}

std::string change_text(Metric metric, const Change& change, const TextStyle& style) {
  if (change.delta() == 0) return delta_text(metric, 0, style);
  return delta_text(metric, change.delta(), style) + " (" + percent_text(change) + ")";
}

std::vector<std::int64_t> signed_tenths_that_sum(std::span<const std::int64_t> values, std::int64_t unit) {
  std::vector<std::int64_t> tenths, rests;
  std::int64_t sum = 0, left = 0;
  for (const std::int64_t value : values) {
    sum = checked_add(sum, value);
    const std::int64_t whole = floor_divide(value, unit);  // and the rest of it, so that ten times a value need not fit
    const std::int64_t rest = 10 * (value - whole * unit);
    tenths.push_back(checked_add(checked_mul(10, whole), rest / unit));
    rests.push_back(rest % unit);
    left -= tenths.back();
  }
  left += in_tenths(sum, unit);
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rests[a] > rests[b]; });
  for (const std::size_t i : order)
    if (left > 0) {
      ++tenths[i];
      --left;
    }
  return tenths;
}

std::string signed_tenths(std::int64_t tenths, std::int64_t change) {
  if (tenths == 0) return change == 0 ? "0.0" : change > 0 ? "+0.0" : "-0.0";
  return (tenths > 0 ? "+" : "") + format_tenths(tenths);
}

std::string label_of(Metric metric) {
  switch (metric) {
    case Metric::step_flops: return "step FLOP";
    case Metric::step_time: return "step time";
    default: return std::string(name_of(metric));
  }
}

std::string category_words(const std::string& category) {
  std::string words = category;
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::vector<Change> largest_of(const std::vector<Change>& changes, std::size_t most) {
  if (changes.size() <= most) return changes;
  std::vector<Change> out(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(most - 1));
  Change others{"[" + std::to_string(changes.size() - out.size()) + " others]", 0, 0};
  for (std::size_t i = out.size(); i < changes.size(); ++i) {
    others.base = checked_add(others.base, changes[i].base);
    others.now = checked_add(others.now, changes[i].now);
  }
  out.push_back(others);
  return out;
}

ByteColumn byte_column(const std::vector<Change>& changes, const Change& total, const TextStyle& style) {
  std::int64_t largest = std::max(total.delta(), -total.delta());
  std::vector<std::int64_t> deltas;
  for (const Change& c : changes) {
    deltas.push_back(c.delta());
    largest = std::max({largest, c.delta(), -c.delta()});
  }
  const ColumnUnit unit = column_unit(largest, style.units);
  const std::vector<std::int64_t> tenths = signed_tenths_that_sum(deltas, unit.bytes);
  const auto amount = [&](std::int64_t bytes, std::int64_t rounded) {
    return style.exact_bytes ? (bytes > 0 ? "+" : "") + format_count(bytes) : signed_tenths(rounded, bytes);
  };
  ByteColumn column{style.exact_bytes ? "bytes" : std::string(unit.name), {}, ""};
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    column.rows.push_back(amount(deltas[i], tenths[i]));
    sum += tenths[i];
  }
  column.total = amount(total.delta(), sum);
  return column;
}

}  // namespace gpuplan
