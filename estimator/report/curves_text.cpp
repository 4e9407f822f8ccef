#include <algorithm>

#include "estimator/report/curves_axes.h"
#include "estimator/report/roofline.h"
#include "estimator/report/svg_parts.h"
#include "estimator/report/text_canvas.h"

namespace gpuplan {
namespace {

constexpr int kPlotRows = 16, kLabelColumns = 11;

class TextPlot : public StyledScreen {
 public:
  TextPlot(const CurveFrame& frame, const TextStyle& style)
      : StyledScreen(style),
        frame_(frame),
        axes_(frame),
        columns_(std::clamp(style.width, 50, 110) - kLabelColumns - 2) {
    cells_.assign(static_cast<std::size_t>(columns_ * kPlotRows), " ");
  }

  std::string text() {
    draw_lines();
    for (const CurveLimit& limit : frame_.limits) draw_limit(limit);
    for (std::size_t i = 0; i < frame_.curves.size(); ++i)
      for (const CurvePoint& p : frame_.curves[i].points) cell(column_of(p.x), row_of(p.y)) = paint("1;36", mark(i));
    std::string out = "\n  " + paint("1", frame_.title) + "\n";
    for (int row = 0; row < kPlotRows; ++row) {
      out += label(row) + (style_.unicode ? "│" : "|");
      for (int c = 0; c < columns_; ++c) out += cell(c, row);
      while (out.back() == ' ') out.pop_back();
      out += "\n";
    }
    return out + ruler() + legend();
  }

 private:
  static std::string mark(std::size_t i) {
    const std::string letter = point_mark(i);
    return letter.empty() ? "*" : letter;
  }
  int column_of(double x) const {
    return std::clamp(static_cast<int>(axes_.part_of_x(x) * (columns_ - 1) + 0.5), 0, columns_ - 1);
  }
  int row_of(double y) const {
    return std::clamp(static_cast<int>((1 - axes_.part_of_y(y)) * (kPlotRows - 1) + 0.5), 0, kPlotRows - 1);
  }
  std::string& cell(int column, int row) { return cells_[static_cast<std::size_t>(row * columns_ + column)]; }

  void draw_lines() {
    if (frame_.names_points) return;
    TextCanvas canvas(columns_, kPlotRows, style_.unicode);
    for (const Curve& curve : frame_.curves)
      for (std::size_t i = 1; i < curve.points.size(); ++i) line(curve.points[i - 1], curve.points[i], canvas);
    for (int row = 0; row < kPlotRows; ++row)
      for (int c = 0; c < columns_; ++c) cell(c, row) = canvas.cell(c, row);
  }

  void line(const CurvePoint& from, const CurvePoint& to, TextCanvas& canvas) const {
    const double x0 = axes_.part_of_x(from.x) * (canvas.dot_columns() - 1),
                 x1 = axes_.part_of_x(to.x) * (canvas.dot_columns() - 1);
    const double y0 = (1 - axes_.part_of_y(from.y)) * (canvas.dot_rows() - 1),
                 y1 = (1 - axes_.part_of_y(to.y)) * (canvas.dot_rows() - 1);
    const int steps = static_cast<int>(std::max(std::abs(x1 - x0), std::abs(y1 - y0))) + 1;
    for (int i = 0; i <= steps; ++i)
      canvas.dot(static_cast<int>(x0 + (x1 - x0) * i / steps + 0.5),
                 static_cast<int>(y0 + (y1 - y0) * i / steps + 0.5));
  }

  void draw_limit(const CurveLimit& limit) {
    if (limit.y > axes_.y_ticks().back()) return;
    const int row = row_of(limit.y);
    const std::string name = " " + shortened_text(limit.name, 30);
    for (int c = 0; c < columns_; ++c) cell(c, row) = style_.unicode ? "╌" : "-";
    // In columns, which names in ASCII are.
    for (std::size_t i = 0; i < name.size() && i + 1 < static_cast<std::size_t>(columns_); ++i)
      cell(columns_ - static_cast<int>(name.size()) + static_cast<int>(i), row) = std::string(1, name[i]);
  }

  std::string label(int row) const {
    for (const double tick : axes_.y_ticks())
      if (row_of(tick) == row) {
        const std::string words = frame_.y_text(tick);
        return std::string(static_cast<std::size_t>(
                               std::max<int>(kLabelColumns - static_cast<int>(display_width(words)) - 1, 0)),
                           ' ') +
               words + " ";
      }
    return std::string(kLabelColumns, ' ');
  }

  // The values of x under their points, as many as have room.
  std::string ruler() const {
    std::string out(kLabelColumns, ' ');
    out += style_.unicode ? "└" : "+";
    for (int c = 0; c < columns_; ++c) out += style_.unicode ? "─" : "-";
    out += "\n";
    std::string line(kLabelColumns + 1, ' ');
    for (const auto& [value, words] : axes_.x_ticks(static_cast<std::size_t>(columns_) / 8)) {
      const std::string shown = shortened_text(words, 14);
      const auto wide = static_cast<int>(display_width(shown)), have = static_cast<int>(display_width(line));
      const int at =
          std::clamp(kLabelColumns + 1 + column_of(value) - wide / 2, 0, kLabelColumns + 1 + columns_ - wide);
      if (have > kLabelColumns + 1 && at < have + 1) continue;
      line.append(static_cast<std::size_t>(std::max(at - have, 0)), ' ');
      line += shown;
    }
    return out + line + "  " + frame_.x_name + "\n";
  }

  std::string legend() const {
    constexpr std::size_t kMost = 20;
    std::string out;
    if (frame_.curves.size() == 1 && frame_.curves[0].name.empty()) return out;
    for (std::size_t i = 0; i < std::min(frame_.curves.size(), kMost); ++i)
      out += "  " + paint("1;36", mark(i)) + "  " + frame_.curves[i].name + "\n";
    if (frame_.curves.size() > kMost) out += "  and " + std::to_string(frame_.curves.size() - kMost) + " more\n";
    return out;
  }

  const CurveFrame& frame_;
  CurveAxes axes_;
  int columns_;
  std::vector<std::string> cells_;
};

}  // namespace

std::string curves_text(const CurveFrame& frame, const TextStyle& style) {
  if (std::ranges::all_of(frame.curves, [](const Curve& c) { return c.points.empty(); })) return "";
  return TextPlot(frame, style).text();
}

}  // namespace gpuplan
