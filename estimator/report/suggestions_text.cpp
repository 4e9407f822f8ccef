#include "estimator/report/suggestions_text.h"

#include <algorithm>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"

namespace gpuplan {

std::string suggestions_text(std::span<const Suggestion> suggestions, std::int64_t usable_bytes,
                             const TextStyle& style) {
  using enum TextTable::Align;
  TextTable changes({left, right}), running({left, right, left});
  for (const Suggestion& s : suggestions) {
    const std::string bytes = styled_bytes(s.device_bytes, style);
    s.retries > 0 ? running.row({s.flags, bytes, retries_text(s.retries)}) : changes.row({s.flags, bytes});
  }
  const auto runs = [](const Suggestion& w) { return w.retries > 0; };
  const bool helps = std::ranges::any_of(suggestions, [&](const Suggestion& w) { return w.fits(usable_bytes); });
  const bool pair = std::ranges::any_of(suggestions, &Suggestion::pair);
  std::string out;
  if (!std::ranges::all_of(suggestions, runs))
    out += std::string("\n  ") +
           (!helps ? "no change or pair of changes makes it fit; the closest"
            : pair ? "no single change makes it fit; these two together do"
                   : "any one of these changes makes it fit") +
           "\n" + changes.text("    ");
  if (std::ranges::any_of(suggestions, runs))
    out += "\n  does not fit, but runs after the allocator releases its cache\n" + running.text("    ");
  return out;
}

}  // namespace gpuplan
