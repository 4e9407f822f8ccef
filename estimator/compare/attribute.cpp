#include "estimator/compare/attribute.h"

#include <algorithm>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

class Attributor {
 public:
  Attributor(std::size_t changes, std::int64_t base, const Trial& trial)
      : base_(base), trial_(trial), none_(changes, false) {}

  std::vector<Effect> run() {
    for (std::size_t i = 0; i < none_.size(); ++i)
      if (const auto delta = delta_of({i}))
        effects_.push_back({{i}, *delta});
      else
        dependent_.push_back(i);
    for (const Effect& effect : effects_)
      if (effect.delta == 0) helpers_.push_back(effect.changes.front());
    group_dependent();
    std::ranges::sort(effects_, {}, [](const Effect& effect) { return effect.changes.front(); });
    return std::move(effects_);
  }

 private:
  std::optional<std::int64_t> delta_of(const std::vector<std::size_t>& changes) const {
    std::vector<bool> made = none_;
    for (const std::size_t i : changes) made[i] = true;
    for (const std::size_t i : helpers_) made[i] = true;
    const std::optional<std::int64_t> amount = trial_(made);
    return amount ? std::optional(checked_add(*amount, -base_)) : std::nullopt;
  }

  // A layer's output and the next one's input change together: neighbours are tried until they can be planned, then
  // with what was planned before them.
  void group_dependent() {
    std::vector<std::size_t> group;
    std::vector<Effect> grouped;
    for (const std::size_t i : dependent_) {
      group.push_back(i);
      const std::optional<std::int64_t> delta = delta_of(group);
      if (!delta) continue;
      grouped.push_back({std::move(group), *delta});
      group.clear();
    }
    while (!group.empty() && !grouped.empty()) {
      group.insert(group.begin(), grouped.back().changes.begin(), grouped.back().changes.end());
      grouped.pop_back();
      if (const auto delta = delta_of(group)) {
        grouped.push_back({std::move(group), *delta});
        group.clear();
      }
    }
    group_pairs(std::move(group), grouped);
    effects_.insert(effects_.end(), grouped.begin(), grouped.end());
  }

  // One that can be planned with nothing keeps those around it from being planned together.
  void group_pairs(std::vector<std::size_t> left, std::vector<Effect>& grouped) const {
    std::size_t tries = 0;
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t k = i + 1; k < left.size() && tries < kMostPairs; ++k, ++tries) {
        const auto delta = delta_of({left[i], left[k]});
        if (!delta) continue;
        grouped.push_back({{left[i], left[k]}, *delta});
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(k));
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
        break;
      }
  }

  std::int64_t base_;
  const Trial& trial_;
  std::vector<bool> none_;
  std::vector<Effect> effects_;
  std::vector<std::size_t> dependent_;  // cannot be planned alone
  std::vector<std::size_t> helpers_;    // have no effect alone
};

}  // namespace

Attribution attribute(std::size_t changes, std::int64_t base, std::int64_t now, const Trial& trial) {
  Attribution result;
  result.effects = Attributor(changes, base, trial).run();
  result.together = checked_add(now, -base);
  for (const Effect& effect : result.effects) result.together = checked_add(result.together, -effect.delta);
  return result;
}

}  // namespace gpuplan
