// The order of GPUs in torchvision's table: batch 12, each card in a machine of its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "estimator/time/time_model.h"
#include "tests/times/time_cases.h"

namespace gpuplan {
namespace {

// Steps of a model on several GPUs: training in fp32 that is not the host's affair.
struct Ranking {
  std::vector<double> predicted, measured;
  double repeated = 1;  // slowest over fastest of the runs on cards of one kind, the only one with several
};

std::map<std::string, Ranking> rankings() {
  constexpr double kHeavy = 0.05;  // seconds
  std::map<std::string, Ranking> models;
  for (const MeasuredStep& s : measured_steps()) {
    if (s.run.precision != DType::fp32 || s.run.mode != Mode::train || s.seconds <= kHeavy) continue;
    Ranking& ranking = models[s.model];
    ranking.predicted.push_back(predicted_seconds(s, TimeModel{}));
    ranking.measured.push_back(s.seconds);
    ranking.repeated = std::max(ranking.repeated, s.spread);
  }
  std::erase_if(models, [](const auto& entry) { return entry.second.measured.size() < 5; });
  return models;
}

double ratio(double a, double b) { return std::max(a, b) / std::min(a, b); }

PairsInOrder in_all(const std::map<std::string, Ranking>& models, const auto& counts) {
  PairsInOrder sum;
  for (const auto& entry : models) {
    const Ranking& r = entry.second;
    const PairsInOrder pairs =
        pairs_in_order(r.predicted, r.measured, [&](std::size_t i, std::size_t j) { return counts(r, i, j); });
    sum.right += pairs.right, sum.all += pairs.all;
  }
  return sum;
}

std::string text(const PairsInOrder& pairs) {
  return std::to_string(pairs.right) + " of " + std::to_string(pairs.all) + " pairs, tau " +
         std::to_string(pairs.tau()).substr(0, 5);
}

}  // namespace

TEST_CASE("the order of GPUs in torchvision's table, beside what repeated runs on one card differ by") {
  const std::map<std::string, Ranking> models = rankings();
  REQUIRE_EQ(models.size(), 9);
  std::vector<double> repeated;
  for (const auto& entry : models) repeated.push_back(entry.second.repeated);
  std::ranges::sort(repeated);
  const double typical = repeated[repeated.size() / 2];
  MESSAGE("runs on RTX 2080 Ti differ by a factor of " << typical << " in the median model, " << repeated.front()
                                                       << " to " << repeated.back());
  const auto every = in_all(models, [](const Ranking&, auto, auto) { return true; });
  // No model can order what one card does not: those that differ less than its own runs do.
  const auto apart = in_all(models, [](const Ranking& r, std::size_t i, std::size_t j) {
    return ratio(r.measured[i], r.measured[j]) > r.repeated;
  });
  // What the time model itself says are different GPUs.
  const auto said = in_all(models, [](const Ranking& r, std::size_t i, std::size_t j) {
    return ratio(r.predicted[i], r.predicted[j]) > 1.15;
  });
  const auto both = in_all(models, [](const Ranking& r, std::size_t i, std::size_t j) {
    return ratio(r.predicted[i], r.predicted[j]) > 1.15 && ratio(r.measured[i], r.measured[j]) > r.repeated;
  });
  MESSAGE("all: " << text(every) << "; measured to differ by more than runs on one card: " << text(apart)
                  << "; said to differ by 15 % or more: " << text(said) << "; both: " << text(both));
  CHECK_GT(typical, 1.15);
}

}  // namespace gpuplan
