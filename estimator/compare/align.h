// Which entry of one list became which of another.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/compare/spec_part.h"

namespace gpuplan {

struct Pairing {
  std::optional<std::size_t> base, now;  // only one of them: removed, or added
};

/// In the order of `now`, what has been removed where it stood. The fewest edits: equal entries are pairs, then those
/// of one name, of one content under two names, of one type; neighbours that nothing connects are removed and added.
std::vector<Pairing> align(const std::vector<SpecPart>& base, const std::vector<SpecPart>& now);

}  // namespace gpuplan
