// Attributes a difference to its causes, each planned on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gpuplan {

/// What a change does to an amount when it is the only one. Several are one effect where none of them can be planned
/// without the others.
struct Effect {
  std::vector<std::size_t> changes;  // by number, ascending
  std::int64_t delta = 0;
};

struct Attribution {
  std::vector<Effect> effects;  // in the order of their first changes; no change is in two of them
  /// What the changes do only together: the effects and this sum to the whole difference. Changes that are in no effect
  /// are in here.
  std::int64_t together = 0;
};

/// The amount with these changes made to the base and no others; nothing where that cannot be planned.
using Trial = std::function<std::optional<std::int64_t>(const std::vector<bool>& made)>;

/// How many plans may be made for it: of so many changes, and of so many layers in all.
struct AttributionBounds {
  std::size_t changes, layers;
  bool allow(std::size_t n, std::size_t layers_each) const {
    return n > 1 && n <= changes && n * layers_each <= layers;
  }
};
/// A second or so. A check is one of many.
constexpr AttributionBounds kBoundsOfDiff{64, 200'000}, kBoundsOfCheck{16, 50'000};
constexpr std::size_t kMostPairs = 64;

/// `base` and `now`: the amount with none of the changes, and with all. Tries each alone, then those that cannot be
/// alone with their neighbours and with what has no effect by itself (a variable that another change uses), then what
/// is left of them two by two: three trials a change and kMostPairs at most. Throws Error for a difference that does
/// not fit in 64 bits.
Attribution attribute(std::size_t changes, std::int64_t base, std::int64_t now, const Trial& trial);

}  // namespace gpuplan
