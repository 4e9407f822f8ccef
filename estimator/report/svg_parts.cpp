#include "estimator/report/svg_parts.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "estimator/base/format.h"
#include "estimator/report/xml_text.h"

namespace gpuplan {

const std::string_view kSvgStyle = R"(<style>
  svg { --ground: #ffffff; --ink: #1f2328; --faint: #d9dee3; --soft: #59636e; }
  @media (prefers-color-scheme: dark) { svg { --ground: #0d1117; --ink: #e6edf3; --faint: #30363d; --soft: #9198a1; } }
  .ground { fill: var(--ground); }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); }
  .title { font-size: 17px; font-weight: 600; }
  .soft { fill: var(--soft); }
  .mark { font-weight: 700; text-anchor: middle; paint-order: stroke; stroke: var(--ground); stroke-width: 3px; }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .grid { stroke: var(--faint); stroke-width: 1; }
  .roof { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; }
  .lower { stroke-dasharray: 5 4; stroke: var(--soft); stroke-width: 1.5; }
  .point { fill-opacity: 0.75; stroke: var(--ground); stroke-width: 1; }
  .point:hover { fill-opacity: 1; stroke: var(--ink); stroke-width: 2; }
</style>
)";

std::string svg_number(double value) {
  const std::int64_t tenths = std::llround(value * 10);
  return (tenths < 0 ? "-" : "") + std::to_string(std::abs(tenths) / 10) +
         (tenths % 10 != 0 ? "." + std::to_string(std::abs(tenths) % 10) : "");
}

std::string svg_text(double x, double y, std::string_view of_class, std::string_view words) {
  return "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" class=\"" + std::string(of_class) + "\">" +
         xml_text(words) + "</text>\n";
}

std::string svg_line(double x1, double y1, double x2, double y2) {
  return "<line class=\"grid\" x1=\"" + svg_number(x1) + "\" y1=\"" + svg_number(y1) + "\" x2=\"" + svg_number(x2) +
         "\" y2=\"" + svg_number(y2) + "\"/>\n";
}

std::string shortened_text(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  std::string out;
  std::size_t seen = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (begins && ++seen > columns - 1) break;
    out += c;
  }
  return out + "…";
}

}  // namespace gpuplan
