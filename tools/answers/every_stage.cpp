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

// Of a rank and its stages.
struct RankSeconds {
  std::vector<StageSeconds> stages;
  double after = 0;  // once all micro-batches are through
};

// Of a rank that was planned: nothing where its time is not known. A copy of the batch is for the stage that has it.
std::optional<RankSeconds> seconds_of(const PlannedReport& planned, const Topology& topology) {
  if (!planned.report.rank->time) return std::nullopt;
  const RankStep& step = planned.plan.step;
  const StepTime& time = planned.report.rank->time->step;
  const auto parts = static_cast<double>(step.run.micro_batches);
  RankSeconds seconds{.stages = {}, .after = time.clip_seconds + time.optimizer_seconds + time.communication_seconds};
  for (std::size_t s = 0; s < step.stages.size(); ++s) {
    const StageTime& of = time.stages[s];
    StageSeconds& stage = seconds.stages.emplace_back();
    stage = {.forward = of.forward_seconds / parts,
             .backward = of.backward_seconds / parts,
             .weight = of.weight_seconds / parts};
    const std::optional<Link> link = link_to_next_stage(step.strategy, step.stages[s].number, topology);
    const auto bytes = static_cast<double>(sent_on_bytes(step, step.stages[s]));
    if (link && bytes > 0) stage.send = ring_seconds(Collective::send, bytes, 2, *link);
  }
  (step.stages.front().first ? seconds.stages.front() : seconds.stages.back()).forward += time.copy_seconds / parts;
  return seconds;
}

// What the rank waits for the others.
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
    std::map<std::vector<std::int64_t>, std::optional<RankSeconds>> middle;  // by the blocks of its stages
    seconds_.assign(index(strategy_.pipeline), std::nullopt);
    for (const std::int64_t s : kinds_of_stages(blocks, strategy_)) {
      PlannedReport planned = s == 0 ? std::move(first) : planned_stage(s);
      seconds_[index(s)] = seconds_of(planned, topology_);
      if (s > 0 && s + 1 < strategy_.pipeline) middle.emplace(blocks_of(blocks, s), seconds_[index(s)]);
      if (!reported_ || planned.report.peak.device_bytes > reported_->report.peak.device_bytes)
        reported_ = std::move(planned);
    }
    for (std::int64_t s = 1; s + 1 < strategy_.pipeline; ++s) seconds_[index(s)] = middle.at(blocks_of(blocks, s));
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

  std::vector<std::int64_t> blocks_of(std::int64_t blocks, std::int64_t place) const {
    Strategy rank = strategy_;
    rank.pipelining.stage = place;
    const std::vector<std::int64_t> each = blocks_of_stages(blocks, strategy_);
    std::vector<std::int64_t> own;
    for (const std::int64_t stage : stages_of_rank(rank)) own.push_back(each[index(stage)]);
    return own;
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
    std::vector<StageSeconds> stages(index(strategy_.stages()));
    std::vector<double> after;
    for (std::size_t r = 0; r < seconds_.size(); ++r) {
      if (!seconds_[r]) return std::move(*reported_);
      Strategy rank = strategy_;
      rank.pipelining.stage = static_cast<std::int64_t>(r);
      const std::vector<std::int64_t> numbers = stages_of_rank(rank);
      for (std::size_t s = 0; s < numbers.size(); ++s) stages[index(numbers[s])] = seconds_[r]->stages[s];
      after.push_back(seconds_[r]->after);
    }
    wait_for_stages(pipelined_seconds(stages, after, strategy_, reported_->plan.step.run.micro_batches),
                    reported_->report);
    return std::move(*reported_);
  }

  const Planning& planning_;
  const Strategy& strategy_;
  const Topology& topology_;
  std::optional<PlannedReport> reported_;
  std::vector<std::optional<RankSeconds>> seconds_;  // by place in the pipeline
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
