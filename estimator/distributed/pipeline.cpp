#include "estimator/distributed/pipeline.h"

#include <algorithm>
#include <numeric>

namespace gpuplan {

std::int64_t micro_batches_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

double pipeline_seconds(std::span<const double> stage_seconds, std::int64_t micro_batches) {
  if (stage_seconds.empty()) return 0;
  const double once = std::accumulate(stage_seconds.begin(), stage_seconds.end(), 0.0);
  return once + static_cast<double>(micro_batches - 1) * std::ranges::max(stage_seconds);
}

}  // namespace gpuplan
