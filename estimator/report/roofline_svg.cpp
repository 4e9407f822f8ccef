#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "estimator/report/roofline.h"
#include "estimator/report/roofline_axes.h"
#include "estimator/report/svg_parts.h"
#include "estimator/report/time_text.h"
#include "estimator/report/xml_text.h"

namespace gpuplan {
namespace {

// In units of the file's own coordinates, about a pixel each.
constexpr double kFrameLeft = 96, kFrameTop = 84, kWidth = 620, kHeight = 440, kLegend = kFrameLeft + kWidth + 32,
                 kLine = 19;
constexpr double kLegendWidth = 372;
constexpr double kLeastRadius = 3.5, kMostRadius = 15;

class Drawing {
 public:
  Drawing(const Roofline& roofline, std::size_t marked)
      : r_(roofline),
        marked_(std::min(marked, roofline.points.size())),
        x_(axes_of(roofline).intensity),
        y_(axes_of(roofline).rate) {
    for (const RooflinePoint& p : r_.points)
      if (std::ranges::find(types_, p.type) == types_.end()) types_.push_back(p.type);
  }

  std::string svg() {
    const double shown = static_cast<double>(marked_ + types_.size()) + 4;
    const double height = std::max(kFrameTop + kHeight + 64, kFrameTop + shown * kLine + 24);
    const double width = kLegend + kLegendWidth;
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + svg_number(width) + " " +
                      svg_number(height) + "\" role=\"img\">\n<title>" + xml_text("Roofline of " + r_.model) +
                      "</title>\n";
    out += kSvgStyle;
    out += "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
    out += text(kFrameLeft, 34, "title", shortened_text("Roofline of " + r_.model, 90));
    out += text(
        kFrameLeft, 56, "soft",
        shortened_text(
            r_.run + " on " + r_.gpu + ". Each point is a layer in one step; " + "its size grows with its time.", 130));
    return out + grid() + roofs() + points() + legend() + "</svg>\n";
  }

 private:
  double x(double intensity) const { return kFrameLeft + kWidth * x_.part(intensity); }
  double y(double flops) const { return kFrameTop + kHeight * (1 - y_.part(flops)); }

  static std::string text(double x, double y, std::string_view of_class, std::string_view words) {
    return svg_text(x, y, of_class, words);
  }
  static std::string line(double x1, double y1, double x2, double y2) { return svg_line(x1, y1, x2, y2); }

  std::string grid() const {
    std::string out;
    for (int d = 0; d <= x_.decades; ++d) {
      const double at = kFrameLeft + kWidth * d / x_.decades;
      out += line(at, kFrameTop, at, kFrameTop + kHeight);
      out += text(at, kFrameTop + kHeight + 18, "soft middle", name_of_decade(x_.first + d));
    }
    for (int d = 0; d <= y_.decades; ++d) {
      const double at = kFrameTop + kHeight * (1 - static_cast<double>(d) / y_.decades);
      out += line(kFrameLeft, at, kFrameLeft + kWidth, at);
      out += text(kFrameLeft - 8, at + 4, "soft end", rate_of_decade(y_.first + d));
    }
    return out + text(kFrameLeft + kWidth / 2, kFrameTop + kHeight + 42, "middle",
                      "arithmetic intensity, FLOP/byte of GPU memory");
  }

  // From where the slope enters the plot to its right end.
  std::string roofs() {
    std::string out;
    const double right = x_.end();
    for (const Roof& roof : r_.roofs) {
      const bool highest = &roof == &r_.roofs.front();
      const double ridge = r_.ridge(roof);
      std::string path = "M";
      if (highest) {
        const double from = std::max(x_.begin(), y_.begin() / r_.peak_bytes);
        path += svg_number(x(from)) + " " + svg_number(y(from * r_.peak_bytes)) + " L";
      }
      path += svg_number(x(ridge)) + " " + svg_number(y(roof.flops_per_second)) + " L" + svg_number(x(right)) + " " +
              svg_number(y(roof.flops_per_second));
      out += "<path class=\"roof" + std::string(highest ? "" : " lower") + "\" d=\"" + path + "\"/>\n";
      const std::string name = std::string(roof.name) + " " + format_flops_per_second(roof.flops_per_second);
      const double width = kSvgLetter * static_cast<double>(name.size());
      const SvgBox box{kFrameLeft + kWidth - width - 6, y(roof.flops_per_second) - 18, width, 14};
      taken_.push_back(box);
      out += text(kFrameLeft + kWidth - 6, box.y + 12, "end", name);
    }
    return out + slope_name();
  }

  // Along the slope, in the middle of what is seen of it.
  std::string slope_name() {
    const Roof& highest = r_.roofs.front();
    const double from = std::max(x_.begin(), y_.begin() / r_.peak_bytes);
    const double middle = std::sqrt(from * r_.ridge(highest));
    const double angle = std::atan2(kHeight / y_.decades, kWidth / x_.decades) * 180 / 3.14159265358979;
    const double at_x = x(middle), at_y = y(middle * r_.peak_bytes);
    const std::string words = "memory " + format_bytes(std::llround(r_.peak_bytes), Units::si) + "/s";
    return "<text class=\"middle\" transform=\"translate(" + svg_number(at_x) + " " + svg_number(at_y) + ") rotate(" +
           svg_number(-angle) + ")\" dy=\"-7\">" + xml_text(words) + "</text>\n";
  }

  static double radius(const RooflinePoint& p) {
    return std::clamp(kMostRadius * std::sqrt(static_cast<double>(p.per_mille) / 250), kLeastRadius, kMostRadius);
  }
  std::string_view colour(std::string_view type) const {
    const auto at = static_cast<std::size_t>(std::ranges::find(types_, type) - types_.begin());
    return kSvgColours[std::min(at, kSvgColours.size() - 1)];
  }
  static std::string words(const RooflinePoint& p) {
    return p.name + (p.layers > 1 ? " × " + format_count(p.layers) : "");
  }

  SvgBox box_of(const RooflinePoint& p) const {
    const double r = radius(p) - 1;
    return {x(p.intensity) - r, y(p.flops_per_second) - r, 2 * r, 2 * r};
  }

  std::string points() {
    std::string out, marks;
    for (const RooflinePoint& p : r_.points) {
      const double at_x = x(p.intensity), at_y = y(p.flops_per_second), r = radius(p);
      out +=
          "<circle class=\"point\" cx=\"" + svg_number(at_x) + "\" cy=\"" + svg_number(at_y) + "\" r=\"" +
          svg_number(r) + "\" fill=\"" + std::string(colour(p.type)) + "\"><title>" +
          xml_text(words(p) + ", " + std::string(p.type) + ": " + format_figure(p.intensity) + " FLOP/byte, " +
                   format_flops_per_second(p.flops_per_second) + ", " + format_tenths(p.per_mille) + " % of the time") +
          "</title></circle>\n";
    }
    for (std::size_t i = 0; i < marked_; ++i) marks += mark(r_.points[i], point_mark(i));
    return out + marks;
  }

  // Whether a letter can be there: over nothing that is written, and not in another layer's circle.
  bool is_free(const SvgBox& box, const RooflinePoint& own) const {
    const bool inside = box.x > kFrameLeft && box.x + box.width < kFrameLeft + kWidth && box.y > kFrameTop - 14 &&
                        box.y + box.height < kFrameTop + kHeight;
    return inside && std::ranges::none_of(taken_, [&](const SvgBox& b) { return b.meets(box); }) &&
           std::ranges::none_of(std::span(r_.points).first(marked_),
                                [&](const RooflinePoint& p) { return &p != &own && box_of(p).meets(box); });
  }

  // In the circle where it is large enough, else beside it, with a line to it from far.
  std::string mark(const RooflinePoint& p, const std::string& letter) {
    if (letter.empty()) return "";
    const double at_x = x(p.intensity), at_y = y(p.flops_per_second), r = radius(p);
    std::optional<SvgBox> found;
    double away = 0;
    for (double distance = r >= 9 ? 0 : r + 8; distance < 90 && !found; distance += 6)
      for (int turn = 0; turn < 12 && !found; ++turn) {
        const double angle = turn * 3.14159265358979 / 6;
        const SvgBox box{at_x + distance * std::cos(angle) - 5, at_y - distance * std::sin(angle) - 6, 10, 12};
        if (is_free(box, p)) found = box, away = distance;
      }
    if (!found) return "";
    taken_.push_back(*found);
    const double mark_x = found->x + 5, mark_y = found->y + 6;
    std::string out;
    if (away > r + 12) out += line(at_x, at_y, mark_x, mark_y);
    return out + text(mark_x, mark_y + 4, "mark", letter);
  }

  // Of a long name the end is left out, never how many layers it stands for.
  static std::string shortened_words(const RooflinePoint& p, std::size_t columns) {
    const std::string whole = words(p), times = whole.substr(p.name.size());
    return shortened_text(p.name, columns - std::min(columns - 1, display_width(times))) + times;
  }

  std::string legend() const {
    double at = kFrameTop + 6;
    std::string out = text(kLegend, at, "soft", "layer") +
                      text(kLegend + kLegendWidth - 96, at, "soft end", "of its roof") +
                      text(kLegend + kLegendWidth - 20, at, "soft end", "of the time");
    for (std::size_t i = 0; i < marked_; ++i) {
      const RooflinePoint& p = r_.points[i];
      at += kLine;
      out += "<g><title>" + xml_text(words(p)) + "</title>";
      out += text(kLegend + 4, at, "mark", point_mark(i)) + text(kLegend + 18, at, "", shortened_words(p, 29));
      out += text(kLegend + kLegendWidth - 96, at, "end",
                  format_figure(100 * p.flops_per_second / r_.roof(p.intensity)) + " %");
      out += text(kLegend + kLegendWidth - 20, at, "end", format_tenths(p.per_mille) + " %") + "</g>\n";
    }
    at += 10;
    for (std::size_t i = 0; i < std::min(types_.size(), kSvgColours.size()); ++i) {
      at += kLine;
      const bool rest = i + 1 == kSvgColours.size() && types_.size() > kSvgColours.size();
      out += "<circle class=\"point\" cx=\"" + svg_number(kLegend + 4) + "\" cy=\"" + svg_number(at - 4) +
             "\" r=\"5\" fill=\"" + std::string(kSvgColours[i]) + "\"/>" +
             text(kLegend + 18, at, "", rest ? "other layers" : shortened_text(types_[i], 40));
    }
    if (r_.without > 0)
      out += text(kLegend, at + kLine + 4, "soft",
                  format_count(r_.without) + (r_.without == 1 ? " layer computes nothing" : " layers compute nothing"));
    return out;
  }

  const Roofline& r_;
  std::size_t marked_;
  std::vector<std::string_view> types_;  // by their point with the most time
  LogAxis x_, y_;
  std::vector<SvgBox> taken_;
};

}  // namespace

std::string roofline_svg(const Roofline& roofline, std::size_t marked) {
  if (roofline.points.empty())
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 40\"><text x=\"12\" y=\"24\">no layer computes "
           "anything</text></svg>\n";
  return Drawing(roofline, marked).svg();
}

}  // namespace gpuplan
