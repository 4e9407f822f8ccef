// Limits on the planning work of a command, in layers. Counted rather than timed, so that the same input gives the same
// answer on every machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "estimator/spec/model.h"

namespace gpuplan {

/// Layers that one command plans, each counted as often as it is planned. A layer takes some 25 us of one core
/// (Linear, Conv2d and attention alike), so this is a minute; llama3_70b of 1,000 layers has 23,000 to plan.
constexpr std::int64_t kMostLayersPlanned = 2'000'000;
/// What a search for changes to a step may plan: more than this many times is seldom.
constexpr std::int64_t kTriesOfSearch = 64;

/// Entries of the expanded model that are layers.
std::int64_t layers_of(const Model& model);
/// Those that one plan of `run` takes. A further micro-batch is replayed, which is a 32nd of the work.
std::int64_t planning_work(const Model& model, const RunConfig& run);
/// The error, at the model's largest entry. `asked`: "10000 micro-batches go through them".
Error too_much_work(const Model& model, const std::string& asked);

/// What a search has planned so far; its threads share it.
class WorkBudget {
 public:
  WorkBudget(const Model& model, const RunConfig& run) : plan_(planning_work(model, run)) {}
  /// Takes `plans` plans from it; false where there is too little left, and from then on.
  bool take(std::int64_t plans = 1) { return (spent_ += plan_ * plans) <= kMostLayersPlanned; }
  bool has_left(std::int64_t plans) const { return spent_ + plan_ * plans <= kMostLayersPlanned; }
  bool exceeded() const { return spent_ > kMostLayersPlanned; }

 private:
  std::int64_t plan_;
  std::atomic<std::int64_t> spent_{0};
};

/// Whether a search for changes to the run is within the budget.
inline bool may_search(const Model& model, const RunConfig& run) {
  return planning_work(model, run) <= kMostLayersPlanned / kTriesOfSearch;
}

}  // namespace gpuplan
