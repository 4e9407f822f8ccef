#include "estimator/time/pipeline_time.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/stage_split.h"

namespace gpuplan {
namespace {

using Kind = PipelineAction::Kind;
using Ends = std::vector<std::optional<double>>;  // by micro-batch

class Ranks {
 public:
  Ranks(std::span<const StageSeconds> stages, const Strategy& strategy, std::int64_t micro_batches)
      : seconds_(stages), stages_(stages.size()) {
    for (Stage& stage : stages_) {
      stage.forward.resize(index(micro_batches));
      stage.backward.resize(index(micro_batches));
    }
    Strategy of_rank = strategy;
    for (std::int64_t r = 0; r < strategy.pipeline; ++r) {
      of_rank.pipelining.stage = r;
      const std::vector<std::int64_t> numbers = stages_of_rank(of_rank);
      Rank& rank = ranks_.emplace_back();
      for (const PipelineAction& a : pipeline_actions(of_rank, micro_batches))
        if (computes(a.kind)) rank.computed.push_back({index(numbers[index(a.stage)]), index(a.micro_batch), a.kind});
    }
  }

  // Until no rank goes on; a schedule whose stages wait for each other ends.
  double run(std::span<const double> after) {
    for (bool more = true; more;) {
      more = false;
      for (Rank& rank : ranks_)
        while (advance(rank)) more = true;
    }
    double last = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) last = std::max(last, ranks_[r].now + after[r]);
    return last;
  }

 private:
  struct Computation {
    std::size_t stage, micro_batch;
    Kind kind;
  };
  struct Rank {
    std::vector<Computation> computed;
    std::size_t next = 0;
    double now = 0;
  };
  struct Stage {
    Ends forward, backward;
  };

  static bool computes(Kind kind) {
    return kind == Kind::forward || kind == Kind::backward || kind == Kind::backward_input ||
           kind == Kind::backward_weight;
  }

  // When what it needs is there; nothing: it has not been computed.
  std::optional<double> ready(const Computation& c) const {
    const bool forward = c.kind == Kind::forward;
    if (c.kind == Kind::backward_weight || (forward ? c.stage == 0 : c.stage + 1 == stages_.size())) return 0;
    const std::optional<double>& end =
        forward ? stages_[c.stage - 1].forward[c.micro_batch] : stages_[c.stage + 1].backward[c.micro_batch];
    if (!end) return std::nullopt;
    return *end + seconds_[forward ? c.stage - 1 : c.stage].send;
  }

  // The first stage computes all of backward with the gradients of weights.
  double seconds_of(const Computation& c) const {
    const StageSeconds& s = seconds_[c.stage];
    switch (c.kind) {
      case Kind::forward: return s.forward;
      case Kind::backward_input: return c.stage == 0 ? 0 : s.backward;
      case Kind::backward_weight: return c.stage == 0 ? s.backward : s.weight;
      default: return s.backward + s.weight;
    }
  }

  bool advance(Rank& rank) {
    if (rank.next == rank.computed.size()) return false;
    const Computation& c = rank.computed[rank.next];
    const std::optional<double> from = ready(c);
    if (!from) return false;
    rank.now = std::max(rank.now, *from) + seconds_of(c);
    if (c.kind != Kind::backward_weight)
      (c.kind == Kind::forward ? stages_[c.stage].forward : stages_[c.stage].backward)[c.micro_batch] = rank.now;
    ++rank.next;
    return true;
  }

  std::span<const StageSeconds> seconds_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
};

}  // namespace

double pipelined_seconds(std::span<const StageSeconds> stages, std::span<const double> after, const Strategy& strategy,
                         std::int64_t micro_batches) {
  return Ranks(stages, strategy, micro_batches).run(after);
}

}  // namespace gpuplan
