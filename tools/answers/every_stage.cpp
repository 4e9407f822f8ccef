#include "tools/answers/every_stage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline_communication.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/time/pipeline_time.h"
#include "tools/answers/every_rank.h"

namespace gpuplan {
namespace {

// Of a stage that was planned: nothing where its time is not known.
std::optional<StageSeconds> seconds_of(const PlannedReport& planned, const Topology& topology) {
  if (!planned.report.rank->time) return std::nullopt;
  const RankStep& step = planned.plan.step;
  const StepTime& time = planned.report.rank->time->step;
  const auto parts = static_cast<double>(step.run.micro_batches);
  StageSeconds seconds{.forward = (time.copy_seconds + time.forward_seconds + time.loss_seconds) / parts,
                       .backward = time.backward_seconds / parts,
                       .after = time.clip_seconds + time.optimizer_seconds + time.communication_seconds};
  const std::optional<Link> link = link_to_next_stage(step.strategy, step.strategy.pipelining.stage, topology);
  const auto bytes = static_cast<double>(sent_on_bytes(step));
  if (link && bytes > 0) seconds.send = ring_seconds(Collective::send, bytes, 2, *link);
  return seconds;
}

// What the stage waits for the others.
void wait_for_stages(double all, Report& report) {
  RankTime& time = *report.rank->time;
  time.alone_seconds = time.step.seconds();
  if (all <= time.alone_seconds || time.alone_seconds <= 0) return;
  time.step.bubble_seconds = all - time.alone_seconds;
  time.step.flops_per_second *= time.alone_seconds / all;
  report.time->bubble_seconds = time.step.bubble_seconds;
  report.time->flops_per_second = time.step.flops_per_second;
}

class StagePlanner {
 public:
  StagePlanner(const Planning& planning, const Strategy& strategy, const Topology& topology)
      : planning_(planning), strategy_(strategy), topology_(topology) {}

  // All that differ, and the worst of them.
  PlannedReport plan_all() {
    for (std::int64_t s = 0; s < strategy_.pipeline; ++s) {
      Strategy stage = strategy_;
      stage.pipelining.stage = s;
      PlannedReport planned = plan_ranks(planning_, stage, topology_);
      note(planned, s);
      if (!reported_ || planned.report.peak.device_bytes > reported_->report.peak.device_bytes)
        reported_ = std::move(planned);
    }
    if (every_.size() > kMostStages)
      throw Error(
          std::to_string(every_.size()) + " ranks differ, and --rank all shows up to " + std::to_string(kMostStages),
          ErrorKind::usage)
          .help("--rank N plans one of them");
    reported_->report.rank->every = std::move(every_);
    return finish();
  }

  // Of each kind of stage one.
  PlannedReport plan_kinds() {
    PlannedReport first = planned_stage(0);
    const std::int64_t blocks = first.plan.step.part.all_blocks;
    const std::vector<std::int64_t> each = blocks_of_stages(blocks, strategy_);
    std::map<std::int64_t, std::optional<StageSeconds>> middle;  // by their blocks
    seconds_.assign(index(strategy_.pipeline), std::nullopt);
    for (const std::int64_t s : kinds_of_stages(blocks, strategy_)) {
      PlannedReport planned = s == 0 ? std::move(first) : planned_stage(s);
      seconds_[index(s)] = seconds_of(planned, topology_);
      if (s > 0 && s + 1 < strategy_.pipeline) middle.emplace(each[index(s)], seconds_[index(s)]);
      if (!reported_ || planned.report.peak.device_bytes > reported_->report.peak.device_bytes)
        reported_ = std::move(planned);
    }
    for (std::int64_t s = 1; s + 1 < strategy_.pipeline; ++s) seconds_[index(s)] = middle.at(each[index(s)]);
    return finish();
  }

  PlannedReport plan_one() {
    reported_ = make_planned(planning_, strategy_, topology_);
    if (!reported_->report.rank->time) return std::move(*reported_);
    for (std::int64_t s = 0; s < strategy_.pipeline; ++s) {
      if (s == strategy_.pipelining.stage)
        seconds_.push_back(seconds_of(*reported_, topology_));
      else
        seconds_.push_back(seconds_of(planned_stage(s), topology_));
    }
    return finish();
  }

 private:
  static constexpr std::size_t kMostStages = 256;

  PlannedReport planned_stage(std::int64_t stage) const {
    Strategy strategy = strategy_;
    strategy.pipelining.stage = stage;
    return make_planned(planning_, strategy, topology_);
  }

  void note(const PlannedReport& planned, std::int64_t stage) {
    seconds_.push_back(seconds_of(planned, topology_));
    // As --rank counts them: those that share layers are alike, and neighbours.
    const std::int64_t before = stage * strategy_.ranks(), alike = strategy_.tensor;
    for (EveryRank ranks : planned.report.rank->every) {
      ranks.first = (before + ranks.first) * alike;
      ranks.last = (before + ranks.last + 1) * alike - 1;
      ranks.ranks *= alike;
      every_.push_back(ranks);
    }
  }

  PlannedReport finish() {
    std::vector<StageSeconds> known;
    for (const std::optional<StageSeconds>& s : seconds_)
      if (s) known.push_back(*s);
    if (std::ssize(known) == strategy_.pipeline)
      wait_for_stages(pipelined_seconds(known, strategy_, reported_->plan.step.run.micro_batches), reported_->report);
    return std::move(*reported_);
  }

  const Planning& planning_;
  const Strategy& strategy_;
  const Topology& topology_;
  std::optional<PlannedReport> reported_;
  std::vector<std::optional<StageSeconds>> seconds_;
  std::vector<EveryRank> every_;
};

}  // namespace

PlannedReport plan_stage(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  return StagePlanner(planning, strategy, topology).plan_one();
}

PlannedReport plan_worst_stage(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  return StagePlanner(planning, strategy, topology).plan_kinds();
}

PlannedReport plan_every_stage(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  return StagePlanner(planning, strategy, topology).plan_all();
}

}  // namespace gpuplan
