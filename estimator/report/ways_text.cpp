#include "estimator/report/ways_text.h"

#include <algorithm>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"

namespace gpuplan {

std::string ways_text(std::span<const WayOut> ways, std::int64_t usable_bytes, const TextStyle& style) {
  using enum TextTable::Align;
  TextTable changes({left, right}), running({left, right, left});
  for (const WayOut& way : ways) {
    const std::string bytes = styled_bytes(way.device_bytes, style);
    way.retries > 0 ? running.row({way.flags, bytes, retries_text(way.retries)}) : changes.row({way.flags, bytes});
  }
  const auto runs = [](const WayOut& w) { return w.retries > 0; };
  const bool helps = std::ranges::any_of(ways, [&](const WayOut& w) { return w.fits(usable_bytes); });
  const bool pair = std::ranges::any_of(ways, &WayOut::pair);
  std::string out;
  if (!std::ranges::all_of(ways, runs))
    out += std::string("\n  ") +
           (!helps ? "no change, and no two together, fit; the closest"
            : pair ? "no single change fits; these two together do"
                   : "any one of these fits") +
           "\n" + changes.text("    ");
  if (std::ranges::any_of(ways, runs))
    out += "\n  does not fit, but runs by giving the cache back\n" + running.text("    ");
  return out;
}

}  // namespace gpuplan
