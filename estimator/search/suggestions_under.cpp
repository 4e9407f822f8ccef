#include "estimator/search/suggestions_under.h"

#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "estimator/search/best_pair.h"
#include "estimator/search/changed_runs.h"
#include "estimator/spec/work.h"

namespace gpuplan {
namespace {

class SuggestionSearch {
 public:
  SuggestionSearch(const RunConfig& run, const Gpu* gpu, const Ceiling& ceiling)
      : run_(run), gpu_(gpu), ceiling_(ceiling) {}

  std::vector<SuggestionUnder> found() {
    smaller_batch();
    more_micro_batches();
    const Gpu gpu = gpu_ != nullptr ? *gpu_ : assumed_gpu();
    for (const ChangedRun& change : changed_runs(run_, gpu))
      if (change.reach != Reach::batch) add(change.flags, amount_of(change.run));
    if (found_.empty())
      if (const auto pair =
              best_pair(run_, gpu, 1, ceiling_.most, [&](const RunConfig& run) { return amount_of(run); }))
        add(pair->flags, pair->amount);
    return std::move(found_);
  }

 private:
  // Nothing where it cannot be run at all.
  std::optional<std::int64_t> amount_of(const RunConfig& run) const {
    try {
      return ceiling_.amount(run);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool add(std::string flags, const std::optional<std::int64_t>& amount) {
    const bool under = amount && *amount <= ceiling_.most;
    if (under) found_.push_back({.flags = std::move(flags), .amount = *amount});
    return under;
  }

  // What a step takes grows with the batch, so halving the interval finds it.
  void smaller_batch() {
    RunConfig run = run_;
    const std::int64_t unit = run_.micro_batches * ceiling_.ranks;
    std::int64_t under = 0, above = run_.batch / unit;
    std::optional<std::int64_t> amount;
    while (above - under > 1) {
      const std::int64_t samples = under + (above - under) / 2;
      run.batch = samples * unit;
      const std::optional<std::int64_t> needed = amount_of(run);
      if (needed && *needed <= ceiling_.most) {
        under = samples;
        amount = needed;
      } else {
        above = samples;
      }
    }
    add("--batch " + std::to_string(under * unit), amount);
  }

  void more_micro_batches() {
    RunConfig run = run_;
    if (run.mode != Mode::train || run.optimizer_in_backward) return;
    // A step of thousands of parts is none that anybody runs, and planning one takes seconds.
    constexpr std::int64_t kMostParts = 1024;
    for (run.micro_batches = 2 * run_.micro_batches;
         run.micro_batches <= kMostParts && run.batch % run.micro_batches == 0; run.micro_batches *= 2)
      if (add("--micro-batches " + std::to_string(run.micro_batches), amount_of(run))) return;
  }

  const RunConfig& run_;
  const Gpu* gpu_;
  const Ceiling& ceiling_;
  std::vector<SuggestionUnder> found_;
};

}  // namespace

std::vector<SuggestionUnder> suggestions_under(const Model& model, const RunConfig& run, const Gpu* gpu,
                                               const Ceiling& ceiling) {
  if (!may_search(model, run)) return {};
  return SuggestionSearch(run, gpu, ceiling).found();
}

}  // namespace gpuplan
