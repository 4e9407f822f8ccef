#include "estimator/distributed/pipeline.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {

std::int64_t micro_batches_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

double bubble_fraction(std::int64_t stages, std::int64_t micro_batches, std::int64_t chunks) {
  return static_cast<double>(stages - 1) / static_cast<double>(chunks * micro_batches);
}

std::vector<Range> split_layers(std::span<const double> costs, std::int64_t stages) {
  const auto layers = static_cast<std::int64_t>(costs.size());
  if (layers < stages)
    throw Error(std::to_string(layers) + " layers do not make " + std::to_string(stages) + " stages", ErrorKind::usage);
  const auto at = [&](std::int64_t stage, std::int64_t layer) {
    return static_cast<std::size_t>(stage * (layers + 1) + layer);
  };
  std::vector<double> sums(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  // least[s][i]: the costliest of s + 1 stages that have the first i layers; cut[s][i]: where the last of them begins.
  std::vector<double> least(at(stages, 0), std::numeric_limits<double>::infinity());
  std::vector<std::int64_t> cut(least.size(), 0);
  for (std::int64_t i = 1; i <= layers; ++i) least[at(0, i)] = sums[static_cast<std::size_t>(i)];
  for (std::int64_t s = 1; s < stages; ++s)
    for (std::int64_t i = s + 1; i <= layers; ++i)
      for (std::int64_t begin = s; begin < i; ++begin) {
        const double last = sums[static_cast<std::size_t>(i)] - sums[static_cast<std::size_t>(begin)];
        const double costliest = std::max(least[at(s - 1, begin)], last);
        if (costliest >= least[at(s, i)]) continue;
        least[at(s, i)] = costliest;
        cut[at(s, i)] = begin;
      }
  std::vector<Range> ranges(static_cast<std::size_t>(stages));
  std::int64_t end = layers;
  for (std::int64_t s = stages; s-- > 0;) {
    const std::int64_t begin = s == 0 ? 0 : cut[at(s, end)];
    ranges[static_cast<std::size_t>(s)] = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
    end = begin;
  }
  return ranges;
}

double pipeline_seconds(std::span<const double> stage_seconds, std::int64_t micro_batches) {
  if (stage_seconds.empty()) return 0;
  const double once = std::accumulate(stage_seconds.begin(), stage_seconds.end(), 0.0);
  return once + static_cast<double>(micro_batches - 1) * std::ranges::max(stage_seconds);
}

}  // namespace gpuplan
