#include "estimator/compare/differences.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "estimator/base/integers.h"

namespace gpuplan {

namespace {

// Amounts are not negative (what is left over of a sum may be), so a difference fits; it is checked all the same.
std::vector<Change> changes(const std::vector<Amount>& base, const std::vector<Amount>& now) {
  std::vector<Change> list;
  std::map<std::string, std::size_t> places;
  const auto place_of = [&](const std::string& name) -> Change& {
    const auto [place, added] = places.emplace(name, list.size());
    if (added) list.push_back({name, 0, 0});
    return list[place->second];
  };
  for (const Amount& amount : now) place_of(amount.name).now = amount.value;
  for (const Amount& amount : base) place_of(amount.name).base = amount.value;
  std::erase_if(list, [](const Change& change) { return change.base == change.now; });
  for (const Change& change : list) (void)checked_add(change.now, checked_mul(change.base, -1));
  std::ranges::stable_sort(list, std::greater<>(),
                           [](const Change& change) { return std::max(change.delta(), -change.delta()); });
  return list;
}

std::vector<Change> side_by_side(const std::vector<Amount>& base, const std::vector<Amount>& now) {
  std::vector<Change> rows;
  for (const Amount& a : base)
    for (const Amount& b : now)
      if (a.name == b.name) rows.push_back({a.name, a.value, b.value});
  return rows;
}

// Where those of a size were allocated: "net.py:3 forward", or "24 net.py:3 forward, 12 net.py:9 update".
std::string places_of(const std::map<std::string, std::int64_t>& lines) {
  constexpr std::size_t kNamed = 3;
  if (lines.empty()) return "";
  if (lines.size() == 1) return lines.begin()->first;
  std::vector<std::pair<std::string, std::int64_t>> most(lines.begin(), lines.end());
  std::ranges::stable_sort(most, std::greater<>(), [](const auto& line) { return line.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most.size(), kNamed); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(most[i].second) + " " + most[i].first;
  return text + (most.size() > kNamed ? ", and elsewhere" : "");
}

std::vector<OneSided> one_sided(const std::vector<Amount>& base, const std::vector<Amount>& now) {
  struct Sizes {
    std::int64_t base = 0, now = 0;
    std::map<std::string, std::int64_t> base_lines, now_lines;
  };
  std::map<std::int64_t, Sizes> by_size;
  for (const Amount& a : base) ++by_size[a.value].base, ++by_size[a.value].base_lines[a.name];
  for (const Amount& a : now) ++by_size[a.value].now, ++by_size[a.value].now_lines[a.name];
  std::vector<OneSided> rows;
  for (const auto& [bytes, sizes] : by_size) {
    if (sizes.base == sizes.now) continue;
    (void)checked_mul(bytes, sizes.now - sizes.base);
    rows.push_back({bytes, sizes.base, sizes.now, places_of(sizes.base_lines), places_of(sizes.now_lines)});
  }
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const OneSided& r) { return std::max(r.delta_bytes(), -r.delta_bytes()); });
  return rows;
}

}  // namespace

std::string_view name_of(Metric metric) {
  switch (metric) {
    case Metric::peak: return "peak";
    case Metric::reserved: return "reserved";
    case Metric::device: return "device";
    case Metric::parameters: return "params";
    case Metric::step_flops: return "flop";
    case Metric::step_time: return "seconds";
  }
  return "";
}

std::optional<std::int64_t> value_of(const Figures& figures, Metric metric) {
  switch (metric) {
    case Metric::peak: return figures.allocated_bytes;
    case Metric::reserved: return figures.reserved_bytes;
    case Metric::device: return figures.device_bytes;
    case Metric::parameters: return figures.parameters;
    case Metric::step_flops: return figures.step_flops;
    case Metric::step_time: return figures.step_nanoseconds;
  }
  return std::nullopt;
}

bool Differences::any() const {
  return std::ranges::any_of(totals, [](const Difference& d) { return d.total.base != d.total.now; });
}

Differences differences(const Figures& base, const Figures& now) {
  Differences d;
  for (const Metric metric : kMetrics) {
    const std::optional<std::int64_t> before = value_of(base, metric), after = value_of(now, metric);
    if (before && after) d.totals.push_back({metric, {std::string(name_of(metric)), *before, *after}});
  }
  d.categories = changes(base.categories, now.categories);
  d.modules = changes(base.modules, now.modules);
  if (base.parameters && now.parameters) d.module_parameters = changes(base.module_parameters, now.module_parameters);
  if (base.step_flops && now.step_flops) d.module_flops = changes(base.module_flops, now.module_flops);
  d.phases = side_by_side(base.phases, now.phases);
  if (!base.tensors.empty() && !now.tensors.empty()) d.tensors = one_sided(base.tensors, now.tensors);
  return d;
}

std::vector<RunChange> run_changes(const Figures& base, const Figures& now) {
  std::vector<RunChange> list;
  for (const auto& [name, value] : now.run)
    for (const auto& [other, before] : base.run)
      if (name == other && value != before) list.push_back({name, before, value});
  return list;
}

std::optional<std::int64_t> per_mille(const Change& change) {
  if (change.base == 0) return std::nullopt;
  const std::int64_t base = std::max(change.base, -change.base);
  const std::int64_t delta = std::max(change.delta(), -change.delta());
  const std::int64_t rest = delta % base;
  // Beyond a few petabytes the product would not fit, and the digits that the quotient loses are not shown.
  const bool fits = base <= std::numeric_limits<std::int64_t>::max() / 4000;
  const std::int64_t part = fits ? (2 * rest * 1000 + base) / (2 * base) : (rest + base / 2000) / (base / 1000);
  const std::int64_t tenths = checked_add(checked_mul(delta / base, 1000), part);
  return change.delta() < 0 ? -tenths : tenths;
}

}  // namespace gpuplan
