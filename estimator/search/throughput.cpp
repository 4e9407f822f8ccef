#include "estimator/search/throughput.h"

#include <memory>

#include "estimator/device/arithmetic.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/step_time.h"

namespace gpuplan {

ThroughputOn throughput_of(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                           const Strategy& strategy, HostCopy copy) {
  if (!why_no_time(run, gpu, copy).empty()) return [](const Topology&) { return std::nullopt; };
  refuse_arithmetic(run, gpu);
  const auto step = std::make_shared<const RankStep>(make_step(model, catalog, run, gpu, strategy, true));
  return [step, copy](const Topology& topology) -> std::optional<StepThroughput> {
    if (!step->strategy.shares()) {
      const std::optional<StepTime> alone = step_time(*step, copy);
      return alone ? std::optional(StepThroughput{alone->seconds(), alone->seconds()}) : std::nullopt;
    }
    const auto time = rank_time(*step, communication(*step, topology), copy);
    return time ? std::optional(StepThroughput{time->step.seconds(), time->alone_seconds}) : std::nullopt;
  };
}

}  // namespace gpuplan
