#include "tools/answers/every_rank.h"

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/distributed/alike_ranks.h"
#include "tools/answers/every_stage.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostPlans = 64, kCompared = 16;

void note(const AlikeRanks& ranks, const Report& report, std::vector<EveryRank>& every) {
  const Reading& peak = report.peak.reading;
  every.push_back({ranks.front(), ranks.back(), static_cast<std::int64_t>(ranks.size()), peak.allocated_bytes,
                   peak.reserved_bytes, report.peak.device_bytes});
}

}  // namespace

PlannedReport plan_every_rank(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  return strategy.runs_stages() ? plan_every_stage(planning, strategy, topology)
                                : plan_ranks(planning, strategy, topology);
}

PlannedReport plan_ranks(const Planning& planning, Strategy strategy, const Topology& topology) {
  strategy.rank = 0;
  PlannedReport worst = make_planned(planning, strategy, topology);
  const std::vector<AlikeRanks> alike = alike_ranks(worst.plan.step.graph, worst.plan.step.run, strategy);
  if (alike.size() > kMostPlans)
    throw Error(std::to_string(alike.size()) + " of " + std::to_string(strategy.ranks()) +
                    " ranks differ, and --rank all plans up to " + std::to_string(kMostPlans),
                ErrorKind::usage)
        .help("--rank N plans one of them");
  std::vector<EveryRank> every;
  note(alike.front(), worst.report, every);
  for (std::size_t i = 1; i < alike.size(); ++i) {
    strategy.rank = alike[i].front();
    PlannedReport next = make_planned(planning, strategy, topology);
    note(alike[i], next.report, every);
    if (next.report.peak.device_bytes > worst.report.peak.device_bytes) worst = std::move(next);
  }
  worst.report.rank->every = std::move(every);
  return worst;
}

PlannedReport plan_worst_rank(const Planning& planning, Strategy strategy, const Topology& topology) {
  strategy.rank = 0;
  PlannedReport worst = make_planned(planning, strategy, topology);
  const std::vector<AlikeRanks> alike = alike_ranks(worst.plan.step.graph, worst.plan.step.run, strategy);
  const std::size_t planned = std::min(alike.size(), kCompared);
  for (std::size_t i = 1; i < planned; ++i) {
    strategy.rank = alike[i * (alike.size() - 1) / (planned - 1)].front();
    PlannedReport next = make_planned(planning, strategy, topology);
    if (next.report.peak.device_bytes > worst.report.peak.device_bytes) worst = std::move(next);
  }
  worst.report.rank->differing = static_cast<std::int64_t>(alike.size());
  worst.report.rank->compared = static_cast<std::int64_t>(planned);
  return worst;
}

}  // namespace gpuplan
