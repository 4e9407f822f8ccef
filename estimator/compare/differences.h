// What two plans differ by: totals, and rows that sum to the difference of a total.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/compare/figures.h"

namespace gpuplan {

enum class Metric : std::uint8_t { peak, reserved, device, parameters, step_flops, step_time };
inline constexpr Metric kMetrics[] = {Metric::peak,       Metric::reserved,   Metric::device,
                                      Metric::parameters, Metric::step_flops, Metric::step_time};
/// "peak", "reserved", "device", "params", "flop", "seconds": the words of --fail-on.
std::string_view name_of(Metric metric);
/// Bytes, a count, FLOPs or nanoseconds; absent where a side does not have it.
std::optional<std::int64_t> value_of(const Figures& figures, Metric metric);

struct Change {
  std::string name;
  std::int64_t base = 0, now = 0;
  std::int64_t delta() const { return now - base; }
  bool operator==(const Change&) const = default;
};

struct Difference {
  Metric metric = Metric::peak;
  Change total;
};

/// Allocations of one size of which a side has more at the peak.
struct OneSided {
  std::int64_t bytes = 0;             // of each, as asked for
  std::int64_t base = 0, now = 0;     // how many
  std::string base_where, now_where;  // the lines of most of them
  std::int64_t delta_bytes() const { return bytes * (now - base); }
};

struct Differences {
  std::vector<Difference> totals;  // of the metrics that both sides have, in the order of kMetrics
  // Parts that differ, the largest change first; each list sums to the difference of its total.
  std::vector<Change> categories, modules;  // of the peak
  std::vector<Change> module_parameters, module_flops;
  std::vector<Change> phases;     // all of them
  std::vector<OneSided> tensors;  // the most bytes first
  /// Whether a total has changed.
  bool any() const;
};

struct RunChange {
  std::string name, base, now;
};

Differences differences(const Figures& base, const Figures& now);
/// What was run otherwise; empty for two plans of the same run.
std::vector<RunChange> run_changes(const Figures& base, const Figures& now);

/// The change in tenths of a percent of the base, rounded half away from zero; nothing where the base is 0.
std::optional<std::int64_t> per_mille(const Change& change);

}  // namespace gpuplan
