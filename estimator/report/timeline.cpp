#include "estimator/report/timeline.h"

#include <algorithm>

#include "estimator/base/format.h"

namespace gpuplan {

namespace {

// The points that column c of `columns` stands for: a share of them, at least one.
std::span<const TimelinePoint> bucket(std::span<const TimelinePoint> points, std::size_t c, std::size_t columns) {
  const std::size_t from = c * points.size() / columns;
  const std::size_t to = std::max(from + 1, (c + 1) * points.size() / columns);
  return points.subspan(from, to - from);
}

std::string repeated(const char* text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

std::string sparkline(std::span<const TimelinePoint> points, std::size_t columns, bool unicode) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
  std::int64_t highest = 1;
  for (const TimelinePoint& p : points) highest = std::max(highest, p.peak_bytes);
  std::string out;
  for (std::size_t c = 0; c < columns && !points.empty(); ++c) {
    std::int64_t level = 0;
    for (const TimelinePoint& p : bucket(points, c, columns)) level = std::max(level, p.peak_bytes);
    const auto step = static_cast<std::size_t>(std::min<std::int64_t>(level / (highest / 8 + 1), 7));
    out += unicode ? kBlocks[step] : kAscii[step];
  }
  return out;
}

std::string phase_ruler(std::span<const TimelinePoint> points, std::size_t columns, bool unicode) {
  std::string out;
  for (std::size_t c = 0; c < columns && !points.empty();) {
    const Phase phase = bucket(points, c, columns)[0].phase;
    std::size_t end = c + 1;
    while (end < columns && bucket(points, end, columns)[0].phase == phase) ++end;
    const std::string name(name_of(phase));
    const std::size_t width = end - c, last = end < columns && width > 1 ? 1 : 0;
    std::string segment = width > name.size() + 1 + last ? name + " " : "";
    segment += repeated(unicode ? "─" : "-", width - display_width(segment) - last);
    out += segment + (last == 1 ? (unicode ? "┤" : "|") : "");
    c = end;
  }
  return out;
}

std::string peak_mark(std::span<const TimelinePoint> points, std::size_t columns, const std::string& text,
                      bool unicode) {
  if (points.empty()) return "";
  std::size_t column = 0;
  std::int64_t most = -1;
  for (std::size_t c = 0; c < columns; ++c)
    for (const TimelinePoint& p : bucket(points, c, columns))
      if (p.peak_bytes > most) most = p.peak_bytes, column = c;
  const std::string mark = unicode ? "▲" : "^";
  const std::size_t width = display_width(text) + 1;
  if (column + 1 + width <= columns || column < width) return repeated(" ", column) + mark + " " + text;
  return repeated(" ", column - width) + text + " " + mark;
}

}  // namespace gpuplan
