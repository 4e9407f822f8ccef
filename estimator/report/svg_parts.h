// What drawings share: colours and style on light and on dark ground, numbers, words and lines.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace gpuplan {

/// Colours that people with any colour vision tell apart (Okabe, Ito, 2008); everything further has the last.
inline constexpr std::array<std::string_view, 7> kSvgColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                                "#e69f00", "#56b4e9", "#8a8a8a"};

inline constexpr double kSvgLetter = 7.5;  // how wide one is at most, at 12 units

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
  bool meets(const SvgBox& o) const {
    return x < o.x + o.width && o.x < x + width && y < o.y + o.height && o.y < y + height;
  }
};

/// The style element of every drawing. Classes: ground, title, soft, mark, end, middle, grid, roof, lower, point.
extern const std::string_view kSvgStyle;

/// To a tenth, the same text in every locale.
std::string svg_number(double value);
/// `words` at a place, escaped.
std::string svg_text(double x, double y, std::string_view of_class, std::string_view words);
/// Of class "grid".
std::string svg_line(double x1, double y1, double x2, double y2);
/// At most so many columns, with an ellipsis where more is left out.
std::string shortened_text(std::string_view text, std::size_t columns);

}  // namespace gpuplan
