#include "estimator/time/pipeline_time.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline_actions.h"

namespace gpuplan {
namespace {

using Kind = PipelineAction::Kind;
using Ends = std::vector<std::optional<double>>;  // by micro-batch

class Stages {
 public:
  Stages(std::span<const StageSeconds> stages, Strategy strategy, std::int64_t micro_batches)
      : seconds_(stages), stages_(stages.size()) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      strategy.pipelining.stage = static_cast<std::int64_t>(s);
      for (const PipelineAction& action : pipeline_actions(strategy, micro_batches))
        if (action.kind == Kind::forward || action.kind == Kind::backward) stages_[s].actions.push_back(action);
      stages_[s].forward.resize(index(micro_batches));
      stages_[s].backward.resize(index(micro_batches));
    }
  }

  // Until no stage goes on; a schedule whose stages wait for each other ends.
  double run() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (advance(s)) more = true;
    }
    double last = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) last = std::max(last, stages_[s].now + seconds_[s].after);
    return last;
  }

 private:
  struct Stage {
    std::vector<PipelineAction> actions;
    std::size_t next = 0;
    double now = 0;
    Ends forward, backward;
  };

  // When what the action needs is there; nothing: it has not been computed.
  std::optional<double> ready(std::size_t s, const PipelineAction& action) const {
    const std::size_t i = index(action.micro_batch);
    const bool forward = action.kind == Kind::forward;
    if (forward ? s == 0 : s + 1 == stages_.size()) return 0;
    const std::optional<double>& end = forward ? stages_[s - 1].forward[i] : stages_[s + 1].backward[i];
    if (!end) return std::nullopt;
    return *end + seconds_[forward ? s - 1 : s].send;
  }

  bool advance(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.next == stage.actions.size()) return false;
    const PipelineAction& action = stage.actions[stage.next];
    const std::optional<double> from = ready(s, action);
    if (!from) return false;
    const bool forward = action.kind == Kind::forward;
    stage.now = std::max(stage.now, *from) + (forward ? seconds_[s].forward : seconds_[s].backward);
    (forward ? stage.forward : stage.backward)[index(action.micro_batch)] = stage.now;
    ++stage.next;
    return true;
  }

  std::span<const StageSeconds> seconds_;
  std::vector<Stage> stages_;
};

}  // namespace

double pipelined_seconds(std::span<const StageSeconds> stages, const Strategy& strategy, std::int64_t micro_batches) {
  return Stages(stages, strategy, micro_batches).run();
}

}  // namespace gpuplan
