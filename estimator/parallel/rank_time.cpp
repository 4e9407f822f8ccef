#include "estimator/parallel/rank_time.h"

#include <algorithm>
#include <numeric>

namespace gpuplan {

std::vector<double> exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time) {
  double forward = time.forward_seconds, backward = time.backward_seconds;
  std::vector<double> exposed;
  for (const CommunicationRow& row : rows) {
    const double seconds = row.seconds.value_or(0);
    if (!row.beside || row.bytes <= 0) {
      exposed.push_back(seconds);
      continue;
    }
    double& left = *row.beside == Phase::forward ? forward : backward;
    const double alone = seconds * static_cast<double>(row.alone_bytes) / static_cast<double>(row.bytes);
    const double hidden = std::clamp(seconds - alone, 0.0, left * row.beside_share);
    left -= hidden;
    exposed.push_back(seconds - hidden);
  }
  return exposed;
}

RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds) {
  RankTime time{own, exposed_seconds(rows, own), alone_seconds};
  const double computing = own.seconds();
  time.step.communication_seconds = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
  if (computing > 0) time.step.flops_per_second *= computing / time.step.seconds();
  return time;
}

}  // namespace gpuplan
