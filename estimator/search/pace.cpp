#include "estimator/search/pace.h"

#include "estimator/plan/plan_rank.h"
#include "estimator/time/step_time.h"
#include "estimator/time/time_rank.h"

namespace gpuplan {

std::optional<StepPace> pace_of_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                     const Strategy& strategy, const Topology& topology, HostCopy copy) {
  if (!strategy.shares()) {
    const std::optional<StepTime> alone = step_time(model, catalog, run, gpu, copy);
    return alone ? std::optional(StepPace{alone->seconds(), alone->seconds()}) : std::nullopt;
  }
  if (!why_no_time(run, gpu, copy).empty()) return std::nullopt;
  const RankPlan rank = plan_rank(model, catalog, run, strategy, topology, &gpu);
  const auto time = time_rank(model, catalog, run, strategy, rank.communication, gpu, copy);
  return time ? std::optional(StepPace{time->step.seconds(), time->alone_seconds}) : std::nullopt;
}

}  // namespace gpuplan
