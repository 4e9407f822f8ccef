#include "estimator/search/batch_lengths.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>

namespace gpuplan {

// std::normal_distribution draws other numbers in each standard library; the engine draws the same in all of them.
std::vector<std::int64_t> draw_lengths(const LognormalLengths& from, std::int64_t samples) {
  std::mt19937_64 engine(from.seed);
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53; };
  const double mu = std::log(static_cast<double>(from.mean)) - from.sigma * from.sigma / 2;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples));
  for (std::int64_t& length : lengths) {
    const double radius = std::sqrt(-2 * std::log(uniform()));  // Box and Muller, 1958
    const double drawn = std::exp(mu + from.sigma * radius * std::cos(2 * std::numbers::pi * uniform()));
    length = static_cast<std::int64_t>(
        std::clamp(std::round(drawn), static_cast<double>(from.least), static_cast<double>(from.most)));
  }
  return lengths;
}

std::vector<StepBatch> batches_of(std::span<const std::int64_t> lengths, std::int64_t batch) {
  std::vector<StepBatch> batches;
  for (std::size_t i = 0; i < lengths.size(); i += static_cast<std::size_t>(batch)) {
    const auto part = lengths.subspan(i, std::min(static_cast<std::size_t>(batch), lengths.size() - i));
    const auto [least, most] = std::ranges::minmax(part);
    batches.push_back({static_cast<std::int64_t>(part.size()), most, least != most});
  }
  return batches;
}

std::vector<std::int64_t> grouped_by_length(std::span<const std::int64_t> lengths, std::int64_t batch) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  const std::int64_t group = std::max<std::int64_t>(std::min<std::int64_t>(count / (batch * 4), 50), 1) * batch;
  std::vector<std::int64_t> sorted(lengths.begin(), lengths.end());
  for (std::int64_t i = 0; i < count; i += group)
    std::sort(sorted.begin() + i, sorted.begin() + std::min(i + group, count), std::greater<>());
  const auto longest = std::ranges::max_element(sorted);
  if (longest != sorted.end()) std::iter_swap(sorted.begin(), longest);
  return sorted;
}

std::vector<StepBatch> longest_first(std::vector<StepBatch> batches) {
  const auto longest = std::ranges::max_element(batches, {}, [](const StepBatch& b) { return b.samples * b.tokens; });
  std::rotate(batches.begin(), longest, longest + 1);
  return batches;
}

std::vector<StepBatch> padded_to_multiples(std::vector<StepBatch> batches, std::int64_t multiple, std::int64_t most) {
  for (StepBatch& b : batches) {
    const std::int64_t tokens = std::min((b.tokens + multiple - 1) / multiple * multiple, std::max(most, b.tokens));
    b.padded = b.padded || tokens > b.tokens;
    b.tokens = tokens;
  }
  return batches;
}

double padding_share(std::span<const std::int64_t> lengths, std::span<const StepBatch> batches) {
  double own = 0, all = 0;
  for (const std::int64_t length : lengths) own += static_cast<double>(length);
  for (const StepBatch& b : batches) all += static_cast<double>(b.samples) * static_cast<double>(b.tokens);
  return all == 0 ? 0 : 1 - own / all;
}

}  // namespace gpuplan
