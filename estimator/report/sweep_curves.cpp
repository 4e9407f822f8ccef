#include "estimator/report/sweep_curves.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "estimator/base/excerpt.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> values_of(std::size_t flag, std::span<const SweepRow> rows) {
  std::vector<std::string> values;
  for (const SweepRow& row : rows)
    if (std::ranges::find(values, row.values[flag]) == values.end()) values.push_back(row.values[flag]);
  return values;
}

struct Abscissa {
  std::size_t flag = 0;
  std::vector<std::string> words;  // where not all are numbers

  double of(const SweepRow& row) const {
    const std::string& value = row.values[flag];
    if (words.empty()) return *number_in(value);
    return static_cast<double>(std::ranges::find(words, value) - words.begin());
  }
};

Abscissa abscissa_of(std::span<const std::string> names, std::span<const SweepRow> rows) {
  Abscissa best;
  std::size_t most = 0;
  for (std::size_t flag = 0; flag < names.size(); ++flag) {
    const std::vector<std::string> values = values_of(flag, rows);
    const bool numbers = std::ranges::all_of(values, [](const std::string& v) { return number_in(v).has_value(); });
    if (!numbers || values.size() <= std::max<std::size_t>(most, 1)) continue;
    best.flag = flag;
    most = values.size();
  }
  if (most == 0) best.words = values_of(0, rows);
  return best;
}

std::string name_of_curve(const SweepRow& row, std::span<const std::string> names, std::size_t but) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (i != but) out += (out.empty() ? "" : ", ") + names[i] + " " + row.values[i];
  return printable_text(out);
}

template <class Value>
CurveFrame frame_of(const std::string& title, std::span<const std::string> names, std::span<const SweepRow> rows,
                    const Abscissa& x, bool bytes, Value value_of) {
  CurveFrame frame{.title = title,
                   .x_name = printable_text(names[x.flag]),
                   .bytes = bytes,
                   .x_log = false,
                   .names_points = false,
                   .x_words = x.words,
                   .y_text = {},
                   .curves = {},
                   .limits = {}};
  for (std::string& word : frame.x_words) word = printable_text(word);
  if (bytes)
    frame.y_text = [](double y) { return format_bytes(std::llround(y)); };
  else
    frame.y_text = [](double y) { return format_figure(y); };
  std::map<std::string, std::size_t> numbers;
  for (const SweepRow& row : rows) {
    const std::optional<double> y = row.figures ? value_of(*row.figures) : std::nullopt;
    if (!y) continue;
    const std::string name = name_of_curve(row, names, x.flag);
    const auto [at, is_new] = numbers.try_emplace(name, frame.curves.size());
    if (is_new) frame.curves.push_back({name, {}});
    frame.curves[at->second].points.push_back({x.of(row), *y,
                                               frame.x_name + " " + printable_text(row.values[x.flag]) +
                                                   (name.empty() ? "" : ", " + name) + ": " + frame.y_text(*y)});
  }
  double least = HUGE_VAL, last = 0;
  for (Curve& curve : frame.curves) {
    std::ranges::stable_sort(curve.points, {}, &CurvePoint::x);
    if (curve.points.empty()) continue;
    least = std::min(least, curve.points.front().x);
    last = std::max(last, curve.points.back().x);
  }
  constexpr double kWide = 8;  // more than that is read by factors
  frame.x_log = x.words.empty() && least > 0 && last >= kWide * least;
  return frame;
}

}  // namespace

std::vector<CurveFrame> sweep_curves(std::span<const std::string> names, std::span<const SweepRow> rows) {
  const Abscissa x = abscissa_of(names, rows);
  CurveFrame memory =
      frame_of("Memory that is needed, the CUDA context included", names, rows, x, true,
               [](const SweepFigures& f) { return std::optional(static_cast<double>(f.device_bytes)); });
  std::map<std::int64_t, std::string> limits;
  const auto gpu = static_cast<std::size_t>(std::ranges::find(names, "gpu") - names.begin());
  for (const SweepRow& row : rows)
    if (row.figures && row.figures->usable_bytes > 0)
      limits.try_emplace(row.figures->usable_bytes, gpu < names.size() ? printable_text(row.values[gpu]) : "usable");
  constexpr std::size_t kMostLimits = 4;  // of more GPUs, which of them is whose is not to be seen
  if (limits.size() > kMostLimits || (gpu == x.flag && limits.size() > 1)) limits.clear();
  for (const auto& [bytes, name] : limits)
    memory.limits.push_back({name + ": " + format_bytes(bytes), static_cast<double>(bytes)});
  CurveFrame speed = frame_of("Samples a second, modelled", names, rows, x, false,
                              [](const SweepFigures& f) { return f.samples_per_second; });
  return {std::move(memory), std::move(speed)};
}

}  // namespace gpuplan
