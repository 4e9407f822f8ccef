#include "estimator/compare/spec_part.h"

#include <algorithm>

namespace gpuplan {

namespace {

bool all_same(const std::vector<SpecPart>& a, const std::vector<SpecPart>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const SpecPart& x, const SpecPart& y) { return same(x, y); });
}

bool same_parts(const std::vector<SpecPart>& a, const std::vector<SpecPart>& b) {
  if (a.size() != b.size()) return false;
  const PartFinder finder(b);
  return std::ranges::all_of(a, [&](const SpecPart& part) {
    const SpecPart* const other = finder.find(part.key);
    return other != nullptr && same(part, *other);
  });
}

}  // namespace

PartFinder::PartFinder(const std::vector<SpecPart>& parts) : parts_(parts) {
  constexpr std::size_t kFew = 16;
  if (parts.size() > kFew)
    for (const SpecPart& part : parts) by_key_.emplace(part.key, &part);
}

const SpecPart* PartFinder::find(const std::string& key) const {
  if (!by_key_.empty()) {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : found->second;
  }
  const auto found = std::ranges::find(parts_, key, &SpecPart::key);
  return found == parts_.end() ? nullptr : &*found;
}

bool same_content(const SpecPart& a, const SpecPart& b) {
  return a.value == b.value && same_parts(a.parts, b.parts) && all_same(a.entries, b.entries);
}

bool same(const SpecPart& a, const SpecPart& b) { return a.key == b.key && same_content(a, b); }

}  // namespace gpuplan
