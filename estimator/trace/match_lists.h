// Aligns two lists in order, by the likeness of their elements.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/trace/learned_trace.h"

namespace gpuplan {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// Pairs (i, k), both ascending, with the highest sum of likeness(i, k); 0: not a pair. Lists that pair off one by one
/// from the first to the last are paired so. Nothing where too much differs to be compared: 10^8 pairs.
std::optional<Pairs> match_lists(std::size_t first, std::size_t second,
                                 const std::function<int(std::size_t, std::size_t)>& likeness);

/// Both lists in one, in an order that keeps either's. Allocations of the same tensor are one event; so are frees of
/// the same tensor, and emptied caches, that lie between the same ones.
std::vector<LearnedEvent> merge_events(const std::vector<LearnedEvent>& merged, const std::vector<LearnedEvent>& own);

}  // namespace gpuplan
