#include "estimator/trace/match_lists.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace gpuplan {
namespace {

constexpr std::size_t kMostPairs = 100'000'000;
constexpr int kSure = 3;  // of a likeness: beginnings and ends of this kind are paired without comparing the rest

enum class Step : std::uint8_t { skip_first, skip_second, pair };

// The best pairs of the two lists' parts from (at, at) on, `first` and `second` long: dynamic programming from the end.
void match_middle(std::size_t at, std::size_t first, std::size_t second,
                  const std::function<int(std::size_t, std::size_t)>& likeness, Pairs& pairs) {
  std::vector<Step> steps(first * second);
  std::vector<int> below(second + 1), row(second + 1);
  for (std::size_t i = first; i-- > 0;) {
    row[second] = 0;
    for (std::size_t k = second; k-- > 0;) {
      const int alike = likeness(at + i, at + k);
      Step& step = steps[i * second + k];
      row[k] = std::max(below[k], row[k + 1]);
      step = below[k] >= row[k + 1] ? Step::skip_first : Step::skip_second;
      if (alike > 0 && below[k + 1] + alike >= row[k]) row[k] = below[k + 1] + alike, step = Step::pair;
    }
    std::swap(row, below);
  }
  for (std::size_t i = 0, k = 0; i < first && k < second;) {
    switch (steps[i * second + k]) {
      case Step::pair: pairs.emplace_back(at + i++, at + k++); break;
      case Step::skip_first: ++i; break;
      case Step::skip_second: ++k; break;
    }
  }
}

using Events = std::span<const LearnedEvent>;

// What lies between two allocations that both lists have.
void merge_gap(Events merged, Events own, std::vector<LearnedEvent>& out) {
  const auto same = [&](std::size_t i, std::size_t k) {
    return merged[i].kind == own[k].kind && merged[i].tensor == own[k].tensor ? kSure : 0;
  };
  const Pairs pairs = match_lists(merged.size(), own.size(), same).value_or(Pairs{});
  std::size_t i = 0, k = 0;
  const auto up_to = [&](std::size_t first, std::size_t second) {
    while (i < first) out.push_back(merged[i++]);
    while (k < second) out.push_back(own[k++]);
  };
  for (const auto& pair : pairs) {
    up_to(pair.first, pair.second);
    out.push_back(merged[i++]);
    out.back().runs |= own[k++].runs;
  }
  up_to(merged.size(), own.size());
}

}  // namespace

std::optional<Pairs> match_lists(std::size_t first, std::size_t second,
                                 const std::function<int(std::size_t, std::size_t)>& likeness) {
  Pairs pairs;
  if (first == second) {
    std::size_t at = 0;
    while (at < first && likeness(at, at) > 0) ++at;
    if (at == first) {
      for (std::size_t i = 0; i < first; ++i) pairs.emplace_back(i, i);
      return pairs;
    }
  }
  std::size_t start = 0, end = 0;
  while (start < std::min(first, second) && likeness(start, start) == kSure) pairs.emplace_back(start, start), ++start;
  while (end < std::min(first, second) - start && likeness(first - 1 - end, second - 1 - end) == kSure) ++end;
  const std::size_t rows = first - start - end, columns = second - start - end;
  if (rows != 0 && columns > kMostPairs / rows) return std::nullopt;
  match_middle(start, rows, columns, likeness, pairs);
  for (std::size_t i = end; i > 0; --i) pairs.emplace_back(first - i, second - i);
  return pairs;
}

std::vector<LearnedEvent> merge_events(const std::vector<LearnedEvent>& merged, const std::vector<LearnedEvent>& own) {
  std::unordered_map<std::uint32_t, std::size_t> at;  // allocations of `merged`
  for (std::size_t i = 0; i < merged.size(); ++i)
    if (merged[i].kind == EventKind::allocate) at.emplace(merged[i].tensor, i);
  std::vector<LearnedEvent> out;
  std::size_t i = 0, k = 0;
  for (std::size_t next = 0; next < own.size(); ++next) {
    if (own[next].kind != EventKind::allocate) continue;
    const auto found = at.find(own[next].tensor);
    if (found == at.end()) continue;
    merge_gap(Events(merged).subspan(i, found->second - i), Events(own).subspan(k, next - k), out);
    out.push_back(merged[found->second]);
    out.back().runs |= own[next].runs;
    i = found->second + 1, k = next + 1;
  }
  merge_gap(Events(merged).subspan(i), Events(own).subspan(k), out);
  return out;
}

}  // namespace gpuplan
