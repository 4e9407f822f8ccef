#include "estimator/search/best_pair.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/search/changed_runs.h"
#include "estimator/search/largest_batch.h"

namespace gpuplan {
namespace {

struct Candidate {
  ChangedPair pair;
  Reach more, less;  // of its two changes
  std::int64_t batch;
  auto order() const { return std::tuple(more, less, -batch, pair.amount); }
};

class PairSearch {
 public:
  PairSearch(const RunConfig& run, const Gpu& gpu, std::int64_t groups, std::int64_t most, const AmountOfRun& amount)
      : run_(run), gpu_(gpu), groups_(groups), most_(most), amount_(amount) {}

  std::optional<ChangedPair> best() {
    const std::vector<ChangedRun> firsts = changes_of(run_);
    std::vector<std::optional<std::int64_t>> alone;
    for (const ChangedRun& first : firsts) alone.push_back(amount_(first.run));
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      if (!alone[i]) continue;
      for (std::size_t j = i + 1; j < firsts.size(); ++j)
        if (alone[j]) both(firsts[i], firsts[j], std::min(*alone[i], *alone[j]));
      more_micro_batches(firsts[i], *alone[i]);
    }
    // A smaller batch reaches further than most changes: it is tried where none of those is enough.
    if (!under_ || under_->more > Reach::batch)
      for (std::size_t i = 0; i < firsts.size(); ++i)
        if (alone[i]) smaller_batch(firsts[i], *alone[i]);
    if (under_) return under_->pair;
    return closest_;
  }

 private:
  std::vector<ChangedRun> changes_of(const RunConfig& run) const {
    std::vector<ChangedRun> list = changed_runs(run, gpu_);
    std::erase_if(list, [](const ChangedRun& c) { return c.reach == Reach::batch; });
    return list;
  }

  // The second change of the first one's run: nothing where that has no such change any more.
  void both(const ChangedRun& first, const ChangedRun& second, std::int64_t less_than) {
    const std::vector<ChangedRun> list = changes_of(first.run);
    const auto found = std::ranges::find(list, second.flags, &ChangedRun::flags);
    if (found != list.end()) offer(first, second.flags, second.reach, found->run, less_than);
  }

  void more_micro_batches(const ChangedRun& first, std::int64_t less_than) {
    RunConfig run = first.run;
    if (run.mode != Mode::train || run.optimizer_in_backward) return;
    // A step of hundreds of parts is none that anybody runs.
    constexpr std::int64_t kMostParts = 256;
    for (run.micro_batches *= 2; run.micro_batches <= kMostParts && run.batch % (run.micro_batches * groups_) == 0;
         run.micro_batches *= 2) {
      RunConfig only = run_;
      only.micro_batches = run.micro_batches;
      if (offer(first, "--micro-batches " + std::to_string(run.micro_batches), Reach::nothing, run,
                less_of(less_than, only)))
        return;
    }
  }

  void smaller_batch(const ChangedRun& first, std::int64_t less_than) {
    RunConfig run = first.run;
    const std::int64_t parts = run.micro_batches * groups_;
    const NeedOfBatch need = [&](std::int64_t samples) {
      run.batch = samples * parts;
      return amount_(run);
    };
    const FittingBatch largest = largest_batch(need, most_, run_.batch / parts - 1);
    const std::int64_t samples = std::max(largest.samples, largest.least);
    if (samples == 0) return;
    RunConfig only = run_;
    run.batch = only.batch = samples * parts;
    offer(first, "--batch " + std::to_string(run.batch), Reach::batch, run, less_of(less_than, only));
  }

  std::int64_t less_of(std::int64_t amount, const RunConfig& run) const {
    return std::min(amount, amount_(run).value_or(amount));
  }

  // Whether it is under the limit.
  bool offer(const ChangedRun& first, const std::string& flags, Reach reach, const RunConfig& run,
             std::int64_t less_than) {
    const std::optional<std::int64_t> amount = amount_(run);
    if (!amount || *amount >= less_than) return false;
    Candidate c{
        {first.flags + " " + flags, *amount}, std::max(first.reach, reach), std::min(first.reach, reach), run.batch};
    if (!closest_ || *amount < closest_->amount) closest_ = c.pair;
    if (*amount > most_) return false;
    if (!under_ || c.order() < under_->order()) under_ = std::move(c);
    return true;
  }

  const RunConfig& run_;
  const Gpu& gpu_;
  std::int64_t groups_, most_;
  const AmountOfRun& amount_;
  std::optional<Candidate> under_;
  std::optional<ChangedPair> closest_;
};

}  // namespace

std::optional<ChangedPair> best_pair(const RunConfig& run, const Gpu& gpu, std::int64_t groups, std::int64_t most,
                                     const AmountOfRun& amount) {
  return PairSearch(run, gpu, groups, most, amount).best();
}

}  // namespace gpuplan
