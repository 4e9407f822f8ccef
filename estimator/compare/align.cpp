#include "estimator/compare/align.h"

#include <algorithm>
#include <cstdint>

namespace gpuplan {

namespace {

constexpr std::int32_t kDropped = 2;  // an entry that has no partner

// More than kDropped twice: rather two entries without partners.
std::int32_t cost_of_pair(const SpecPart& a, const SpecPart& b) {
  if (same(a, b)) return 0;
  if (!a.key.empty() && a.key == b.key) return 1;
  if (same_content(a, b)) return 1;
  const bool unnamed = a.key.empty() && b.key.empty();
  if (a.value == b.value) return unnamed ? 2 : 3;
  return unnamed ? 3 : 2 * kDropped + 1;
}

// Edit distance, Wagner and Fischer's: https://doi.org/10.1145/321796.321811
class Table {
 public:
  Table(const std::vector<SpecPart>& base, const std::vector<SpecPart>& now, std::size_t from, std::size_t base_end,
        std::size_t now_end)
      : base_(base), now_(now), from_(from), rows_(base_end - from), columns_(now_end - from) {
    costs_.assign((rows_ + 1) * (columns_ + 1), 0);
    for (std::size_t i = rows_ + 1; i-- > 0;)
      for (std::size_t k = columns_ + 1; k-- > 0;) at(i, k) = least(i, k);
  }

  void append_to(std::vector<Pairing>& pairs) {
    std::size_t i = 0, k = 0;
    while (i < rows_ || k < columns_) {
      if (i < rows_ && k < columns_ && at(i, k) == pair(i, k) + at(i + 1, k + 1))
        pairs.push_back({from_ + i++, from_ + k++});
      else if (i < rows_ && at(i, k) == kDropped + at(i + 1, k))
        pairs.push_back({from_ + i++, std::nullopt});
      else
        pairs.push_back({std::nullopt, from_ + k++});
    }
  }

 private:
  std::int32_t& at(std::size_t i, std::size_t k) { return costs_[i * (columns_ + 1) + k]; }
  std::int32_t pair(std::size_t i, std::size_t k) const { return cost_of_pair(base_[from_ + i], now_[from_ + k]); }
  std::int32_t least(std::size_t i, std::size_t k) {
    if (i == rows_) return static_cast<std::int32_t>(columns_ - k) * kDropped;
    if (k == columns_) return static_cast<std::int32_t>(rows_ - i) * kDropped;
    return std::min({pair(i, k) + at(i + 1, k + 1), kDropped + at(i + 1, k), kDropped + at(i, k + 1)});
  }

  const std::vector<SpecPart>& base_;
  const std::vector<SpecPart>& now_;
  std::size_t from_, rows_, columns_;
  std::vector<std::int32_t> costs_;  // of the ends of both lists, from entries i and k on
};

// How many parts there are to look at, at most, when entries are compared.
std::size_t size_of(const SpecPart& part) {
  std::size_t size = 1;
  for (const SpecPart& inner : part.parts) size += size_of(inner);
  for (const SpecPart& entry : part.entries) size += size_of(entry);
  return size;
}

// Of lists too long for a table of all pairs: those that stand at one place.
void append_in_step(std::size_t from, std::size_t base_end, std::size_t now_end, std::vector<Pairing>& pairs) {
  std::size_t i = from;
  for (; i < std::min(base_end, now_end); ++i) pairs.push_back({i, i});
  for (std::size_t k = i; k < base_end; ++k) pairs.push_back({k, std::nullopt});
  for (std::size_t k = i; k < now_end; ++k) pairs.push_back({std::nullopt, k});
}

}  // namespace

std::vector<Pairing> align(const std::vector<SpecPart>& base, const std::vector<SpecPart>& now) {
  constexpr std::size_t kMostPairs = std::size_t{4} << 20, kMostParts = std::size_t{64} << 20;  // a second or so
  std::vector<Pairing> pairs;
  std::size_t from = 0, base_end = base.size(), now_end = now.size();
  for (; from < std::min(base_end, now_end) && same(base[from], now[from]); ++from) pairs.push_back({from, from});
  while (base_end > from && now_end > from && same(base[base_end - 1], now[now_end - 1])) --base_end, --now_end;
  std::size_t parts = 0;
  for (std::size_t i = from; i < base_end; ++i) parts += size_of(base[i]);
  const std::size_t columns = now_end - from;
  if ((base_end - from) * columns <= kMostPairs && parts * columns <= kMostParts)
    Table(base, now, from, base_end, now_end).append_to(pairs);
  else
    append_in_step(from, base_end, now_end, pairs);
  for (; base_end < base.size(); ++base_end, ++now_end) pairs.push_back({base_end, now_end});
  return pairs;
}

}  // namespace gpuplan
