#include "estimator/parallel/rank_time.h"

#include <algorithm>
#include <numeric>

namespace gpuplan {

namespace {

// A bucket begins when its gradients are there and the link is free; what ends after backward is waited for.
double after_backward(const CommunicationRow& row, double seconds, std::span<const double> ends) {
  // Parameters that get no gradient are in the row's bytes and in no bucket.
  std::int64_t in_buckets = 0;
  for (const GradientBucket& b : row.buckets) in_buckets += b.bytes;
  double sent = 0;
  for (const GradientBucket& b : row.buckets) {
    const double ready = ends[static_cast<std::size_t>(b.after_step)];
    sent = std::max(sent, ready) + seconds * static_cast<double>(b.bytes) / static_cast<double>(in_buckets);
  }
  return std::max(0.0, sent - *std::ranges::max_element(ends));
}

}  // namespace

std::vector<double> exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time,
                                    std::span<const double> backward_ends) {
  double forward = time.forward_seconds, backward = time.backward_seconds;
  std::vector<double> exposed;
  for (const CommunicationRow& row : rows) {
    const double seconds = row.seconds.value_or(0);
    if (!row.beside || row.bytes <= 0) {
      exposed.push_back(seconds);
      continue;
    }
    if (!row.buckets.empty() && !backward_ends.empty()) {
      exposed.push_back(after_backward(row, seconds, backward_ends));
      continue;
    }
    double& left = *row.beside == Phase::forward ? forward : backward;
    const double alone = seconds * static_cast<double>(row.alone_bytes) / static_cast<double>(row.bytes);
    const double hidden = std::clamp(seconds - alone, 0.0, left);
    left -= hidden;
    exposed.push_back(seconds - hidden);
  }
  return exposed;
}

RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds,
                   std::span<const double> backward_ends) {
  RankTime time{own, exposed_seconds(rows, own, backward_ends), alone_seconds};
  const double computing = own.seconds();
  time.step.communication_seconds = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
  if (computing > 0) time.step.flops_per_second *= computing / time.step.seconds();
  return time;
}

}  // namespace gpuplan
