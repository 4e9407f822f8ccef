#include "estimator/search/pace.h"

#include <algorithm>
#include <string_view>

#include "estimator/plan_rank.h"
#include "estimator/time/step_time.h"

namespace gpuplan {
namespace {

// What runs while collectives do: DDP reduces a bucket once its gradients are there, FSDP2 gathers the next block's
// parameters while this one runs and reduces the last one's gradients.
double shown_seconds(const RankPlan& rank, const StepTime& alone) {
  double with_forward = 0, with_backward = 0, by_itself = 0;
  for (const CommunicationRow& row : rank.communication) {
    const bool ddp_gradients = row.collective == Collective::all_reduce;
    if (row.what == "parameters, forward")
      with_forward += *row.seconds;
    else if (row.what == "parameters, backward" || row.what == "gradients" || ddp_gradients)
      with_backward += *row.seconds;
    else
      by_itself += *row.seconds;
  }
  return by_itself + std::max(with_forward - alone.forward_seconds, 0.0) +
         std::max(with_backward - alone.backward_seconds, 0.0);
}

}  // namespace

std::optional<StepPace> pace_of_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                                     const Strategy& strategy, const Topology& topology, HostCopy copy) {
  RunConfig own = run;
  own.batch = run.batch / strategy.gpus;
  const std::optional<StepTime> alone = step_time(model, catalog, own, gpu, copy);
  if (!alone) return std::nullopt;
  if (strategy.gpus == 1) return StepPace{alone->seconds(), alone->seconds()};
  const RankPlan rank = plan_rank(model, catalog, run, strategy, topology, &gpu);
  if (std::ranges::any_of(rank.communication, [](const CommunicationRow& row) { return !row.seconds; }))
    return std::nullopt;
  return StepPace{alone->seconds() + shown_seconds(rank, *alone), alone->seconds()};
}

}  // namespace gpuplan
