#include <algorithm>
#include <array>
#include <cmath>

#include "estimator/report/roofline.h"
#include "estimator/report/roofline_axes.h"
#include "estimator/report/text_canvas.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

constexpr int kRows = 18;
constexpr int kMargin = 9;  // columns left of the axis

class Plot : public StyledScreen {
 public:
  Plot(const Roofline& roofline, const TextStyle& style, std::size_t marked)
      : StyledScreen(style),
        r_(roofline),
        marked_(std::min(marked, roofline.points.size())),
        columns_(std::clamp(style.width, 50, 110) - kMargin - 4),
        x_(axes_of(roofline).intensity),
        y_(axes_of(roofline).rate) {
    cells_.assign(static_cast<std::size_t>(columns_ * kRows), "");
  }

  std::string text() {
    draw_roofs();
    for (std::size_t i = 0; i < r_.points.size(); ++i) mark(r_.points[i], i < marked_ ? point_mark(i) : "");
    std::string out = "  " + paint("1", "Roofline") + dot() + r_.model + dot() + r_.run + dot() + r_.gpu + "\n\n";
    for (int row = 0; row < kRows; ++row) out += label(row) + line(row) + "\n";
    return out + ruler() + "\n" + roofs() + "\n" + legend();
  }

 private:
  void draw_roofs() {
    TextCanvas canvas(columns_, kRows, style_.unicode);
    for (const Roof& roof : r_.roofs) {
      int before = -1;
      for (int x = 0; x < canvas.dot_columns(); ++x) {
        const double intensity = x_.value((x + 0.5) / canvas.dot_columns());
        const bool flat = intensity * r_.peak_bytes >= roof.flops_per_second;
        if (!flat && &roof != &r_.roofs.front()) continue;  // the slope is everyone's
        const double height = y_.part(flat ? roof.flops_per_second : intensity * r_.peak_bytes);
        if (height <= 0) continue;
        const int y = static_cast<int>((1 - height) * (canvas.dot_rows() - 1) + 0.5);
        for (int fill = std::max(y, std::min(before - 1, canvas.dot_rows())); fill >= y; --fill) canvas.dot(x, fill);
        before = before < 0 || !flat ? y : before;
      }
    }
    for (int row = 0; row < kRows; ++row)
      for (int c = 0; c < columns_; ++c) cell(c, row) = canvas.cell(c, row);
    for (const Roof& roof : r_.roofs) name_roof(roof);
  }

  // At the right end, above its line, or under it at the top.
  void name_roof(const Roof& roof) {
    const int at = row_of(roof.flops_per_second), row = at > 0 ? at - 1 : at + 1;
    const auto width = static_cast<int>(roof.name.size());
    for (int i = 0; i < width; ++i)
      cell(columns_ - width + i, row) = std::string(1, roof.name[static_cast<std::size_t>(i)]);
    for (int i = 0; i < width; ++i) taken_.push_back({columns_ - width + i, row});
  }

  // The nearest free cell: two layers that do almost the same are both to be seen.
  void mark(const RooflinePoint& p, const std::string& letter) {
    const int column = std::min(static_cast<int>(x_.part(p.intensity) * columns_), columns_ - 1);
    const int row = row_of(p.flops_per_second);
    if (letter.empty()) {
      if (is_free(column, row)) cell(column, row) = style_.unicode ? "·" : "+";
      return;
    }
    static constexpr std::array<std::array<int, 2>, 9> kNear = {
        {{0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {2, 0}, {-2, 0}, {1, 1}, {-1, -1}}};
    for (const auto& [right, down] : kNear) {
      const int c = column + right, r = row + down;
      if (c < 0 || c >= columns_ || r < 0 || r >= kRows || !is_free(c, r)) continue;
      cell(c, r) = paint("1;36", letter);
      return void(taken_.push_back({c, r}));
    }
  }

  bool is_free(int column, int row) const {
    return std::ranges::find(taken_, std::array<int, 2>{column, row}) == taken_.end();
  }
  int row_of(double flops) const { return std::min(static_cast<int>((1 - y_.part(flops)) * kRows), kRows - 1); }
  std::string& cell(int column, int row) { return cells_[static_cast<std::size_t>(row * columns_ + column)]; }

  // A decade is named in the row that it begins in.
  std::string label(int row) const {
    std::string text;
    for (int d = 0; d <= y_.decades; ++d)
      if (row_of(std::pow(10.0, y_.first + d)) == row) text = rate_of_decade(y_.first + d);
    if (const std::size_t unit = text.find("LOP/s"); unit != std::string::npos) text.replace(unit, 5, "/s");
    const auto width = static_cast<std::size_t>(kMargin);
    return std::string(width - std::min(width, text.size()), ' ') + text + " " +
           (style_.unicode ? (text.empty() ? "│" : "┤") : (text.empty() ? "|" : "+"));
  }

  std::string line(int row) {
    std::string out;
    for (int c = 0; c < columns_; ++c) out += cell(c, row);
    return out.erase(out.find_last_not_of(' ') + 1);
  }

  std::string ruler() const {
    std::string axis, names(static_cast<std::size_t>(kMargin + 2 + columns_), ' ');
    for (int c = 0; c < columns_; ++c) {
      bool tick = false;
      for (int d = 1; d < x_.decades; ++d) tick = tick || c == d * columns_ / x_.decades;
      axis += style_.unicode ? (tick ? "┬" : "─") : (tick ? "+" : "-");
    }
    for (int d = 0; d < x_.decades; ++d) {
      const std::string name = name_of_decade(x_.first + d);
      const std::size_t at =
          static_cast<std::size_t>(kMargin + 2 + d * columns_ / x_.decades) - (d > 0 ? name.size() / 2 : 0);
      names.replace(at, name.size(), name);
    }
    const std::string unit = "FLOP/byte";
    names.replace(names.size() - unit.size(), unit.size(), unit);
    return std::string(kMargin + 1, ' ') + (style_.unicode ? "└" : "+") + axis + "\n" + names + "\n";
  }
  std::string roofs() const {
    TextTable table({TextTable::Align::left, TextTable::Align::right, TextTable::Align::left});
    for (const Roof& roof : r_.roofs)
      table.row({std::string(roof.name), format_flops_per_second(roof.flops_per_second),
                 "from " + format_figure(r_.ridge(roof)) + " FLOP/byte on; below it the memory's " +
                     format_bytes(std::llround(r_.peak_bytes), Units::si) + "/s decide"});
    return table.text();
  }

  std::string legend() const {
    using enum TextTable::Align;
    TextTable table({left, left, left, right, right, right, right});
    table.row({"", "layer", "type", "FLOP/byte", "FLOP/s", "of roof", "% of time"});
    for (std::size_t i = 0; i < marked_; ++i) {
      const RooflinePoint& p = r_.points[i];
      const std::string times = p.layers > 1 ? (style_.unicode ? " × " : " x ") + format_count(p.layers) : "";
      table.row({point_mark(i), p.name + times, std::string(p.type), format_figure(p.intensity),
                 format_flops_per_second(p.flops_per_second),
                 format_figure(100 * p.flops_per_second / r_.roof(p.intensity)) + " %", format_tenths(p.per_mille)});
    }
    std::string rest;
    std::int64_t layers = 0;
    for (std::size_t i = marked_; i < r_.points.size(); ++i) layers += r_.points[i].layers;
    if (layers > 0)
      rest = std::string("  ") + (style_.unicode ? "·" : "+") + "  " + format_count(layers) +
             (layers == 1 ? " more layer" : " more layers");
    if (r_.without > 0)
      rest +=
          (rest.empty() ? "  " : dot()) + format_count(r_.without) +
          (r_.without == 1 ? " layer computes nothing and is not shown" : " layers compute nothing and are not shown");
    return table.text() + (rest.empty() ? "" : rest + "\n") + above_roof();
  }

  // What is computed is counted by its definition (Lavin and Gray, "Fast Algorithms for Convolutional Neural
  // Networks").
  std::string above_roof() const {
    const auto is_above = [&](const RooflinePoint& p) { return p.flops_per_second > r_.roof(p.intensity); };
    if (std::ranges::none_of(r_.points, is_above)) return "";
    return "  above 100 %: Winograd convolution needs fewer multiplications than a 3" +
           std::string(style_.unicode ? "×" : "x") + "3 convolution is counted with\n";
  }

  const Roofline& r_;
  std::size_t marked_;
  int columns_;
  LogAxis x_, y_;
  std::vector<std::string> cells_;
  std::vector<std::array<int, 2>> taken_;
};

}  // namespace

std::string roofline_text(const Roofline& roofline, const TextStyle& style, std::size_t marked) {
  if (roofline.points.empty()) return "  no layer computes anything\n";
  return Plot(roofline, style, marked).text();
}

}  // namespace gpuplan
