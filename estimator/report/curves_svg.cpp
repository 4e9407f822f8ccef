#include <algorithm>

#include "estimator/base/format.h"
#include "estimator/report/curves_axes.h"
#include "estimator/report/svg_parts.h"
#include "estimator/report/xml_text.h"

namespace gpuplan {
namespace {

// In units of the file's own coordinates, about a pixel each.
constexpr double kPlotLeft = 96, kPlotTop = 64, kPlotWidth = 620, kPlotHeight = 300,
                 kLegendAt = kPlotLeft + kPlotWidth + 24, kLegendWide = 260, kLegendRow = 19, kBelow = 64;
constexpr std::size_t kMostInLegend = 14, kMostTicks = 10;

class FrameDrawing {
 public:
  FrameDrawing(const CurveFrame& frame, double top) : frame_(frame), axes_(frame), top_(top) {}

  std::string svg() {
    std::string out = svg_text(kPlotLeft, top_ - 20, "title", shortened_text(frame_.title, 90)) + grid();
    for (const CurveLimit& limit : frame_.limits) out += limit_line(limit);
    for (const Curve& curve : frame_.curves)
      for (const CurvePoint& p : curve.points) taken_.push_back({x(p.x) - 5, y(p.y) - 5, 10, 10});
    for (std::size_t i = 0; i < frame_.curves.size(); ++i) out += curve(frame_.curves[i], colour(i));
    return out + legend();
  }

 private:
  double x(double value) const { return kPlotLeft + 14 + (kPlotWidth - 28) * axes_.part_of_x(value); }
  double y(double value) const { return top_ + kPlotHeight * (1 - axes_.part_of_y(value)); }
  static std::string colour(std::size_t i) { return std::string(kSvgColours[std::min(i, kSvgColours.size() - 1)]); }

  std::string grid() const {
    std::string out;
    for (const double tick : axes_.y_ticks()) {
      out += svg_line(kPlotLeft, y(tick), kPlotLeft + kPlotWidth, y(tick));
      out += svg_text(kPlotLeft - 8, y(tick) + 4, "soft end", frame_.y_text(tick));
    }
    const auto ticks = axes_.x_ticks(kMostTicks);
    const std::size_t wide = ticks.size() > 5 ? 10 : 20;
    for (const auto& [value, words] : ticks)
      out += svg_text(x(value), top_ + kPlotHeight + 18, "soft middle", shortened_text(words, wide));
    return out + svg_text(kPlotLeft + kPlotWidth / 2, top_ + kPlotHeight + 42, "middle", frame_.x_name);
  }

  std::string limit_line(const CurveLimit& limit) const {
    if (limit.y > axes_.y_ticks().back()) return "";
    const std::string at = svg_number(y(limit.y));
    return "<path class=\"roof lower\" d=\"M" + svg_number(kPlotLeft) + " " + at + " L" +
           svg_number(kPlotLeft + kPlotWidth) + " " + at + "\"/>\n" +
           svg_text(kPlotLeft + kPlotWidth - 6, y(limit.y) - 6, "end", limit.name);
  }

  // Beside its point; one that would lie on another is left to the tooltip.
  std::string name(const CurvePoint& p) {
    const std::string words = shortened_text(p.words, 28);
    const SvgBox box{x(p.x) + 8, y(p.y) - 7, kSvgLetter * static_cast<double>(display_width(words)), 14};
    if (std::ranges::any_of(taken_, [&](const SvgBox& other) { return other.meets(box); })) return "";
    taken_.push_back(box);
    return svg_text(box.x, y(p.y) + 4, "", words);
  }

  std::string curve(const Curve& curve, const std::string& colour) {
    std::string path, dots;
    for (const CurvePoint& p : curve.points) {
      path += (path.empty() ? "M" : " L") + svg_number(x(p.x)) + " " + svg_number(y(p.y));
      dots += "<circle class=\"point\" cx=\"" + svg_number(x(p.x)) + "\" cy=\"" + svg_number(y(p.y)) +
              "\" r=\"5\" fill=\"" + colour + "\"><title>" + xml_text(p.words) + "</title></circle>\n";
      if (frame_.names_points) dots += name(p);
    }
    if (frame_.names_points || curve.points.size() < 2) return dots;
    return "<path fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2\" d=\"" + path + "\"/>\n" + dots;
  }

  std::string legend() const {
    if (frame_.names_points || (frame_.curves.size() == 1 && frame_.curves[0].name.empty())) return "";
    std::string out;
    const std::size_t shown = std::min(frame_.curves.size(), kMostInLegend);
    for (std::size_t i = 0; i < shown; ++i) {
      const double at = top_ + 10 + kLegendRow * static_cast<double>(i);
      out += "<circle class=\"point\" cx=\"" + svg_number(kLegendAt) + "\" cy=\"" + svg_number(at - 4) +
             "\" r=\"5\" fill=\"" + colour(i) + "\"/>" +
             svg_text(kLegendAt + 14, at, "", shortened_text(frame_.curves[i].name, 34));
    }
    if (shown < frame_.curves.size())
      out += svg_text(kLegendAt + 14, top_ + 10 + kLegendRow * static_cast<double>(shown), "soft",
                      "and " + std::to_string(frame_.curves.size() - shown) + " more, grey");
    return out;
  }

  const CurveFrame& frame_;
  CurveAxes axes_;
  double top_;
  std::vector<SvgBox> taken_;
};

}  // namespace

std::string curves_svg(const std::string& title, const std::vector<CurveFrame>& frames) {
  std::string drawn;
  double top = kPlotTop;
  for (const CurveFrame& frame : frames) {
    if (std::ranges::all_of(frame.curves, [](const Curve& c) { return c.points.empty(); })) continue;
    drawn += FrameDrawing(frame, top).svg();
    top += kPlotHeight + kBelow + kPlotTop;
  }
  if (drawn.empty()) return "";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + svg_number(kLegendAt + kLegendWide) + " " +
         svg_number(top - kPlotTop) + "\" role=\"img\">\n<title>" + xml_text(title) + "</title>\n" +
         std::string(kSvgStyle) + "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n" + drawn + "</svg>\n";
}

}  // namespace gpuplan
