// Time of a step in PyTorch eager mode: the host launches one kernel after another, and the GPU runs them in that
// order, each as soon as it has been launched and the previous one is finished. If kernels are shorter than the host's
// calls, the GPU waits and the step is launch-bound.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/graph/layer.h"
#include "estimator/plan/plan_snapshot.h"
#include "estimator/plan/timing.h"
#include "estimator/spec/run_config.h"
#include "estimator/time/time_model.h"
#include "estimator/time/work.h"

namespace gpuplan {

/// Of one GPU; the step has its calls. Nothing where why_no_time() says something, and for a step of more than a
/// billion seconds.
std::optional<StepTime> step_time(const RankStep& step, HostCopy copy = HostCopy::pinned,
                                  const TimeModel& constants = {});

/// Why the time of such a step is not known: the GPU's peaks, or the link that pinned memory takes, are not, or tensors
/// or an optimizer are on the host. Empty where it is.
std::string why_no_time(const RunConfig& run, const Gpu& gpu, HostCopy copy);

/// What runs after backward.
struct StepUpdate {
  Work step, clip;  // optimizer.step(), clip_grad_norm_()
  std::int64_t kernels = 0, clip_kernels = 0;
};
/// Of the parameters that `schedule` has gradients of, in `graph`.
StepUpdate step_update(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer);

/// The times of each operation, for timed_snapshot_of(); nothing where step_time() is nothing.
std::optional<ModelledTimes> modelled_times(const RankStep& step, HostCopy copy);

/// A step with another update: one rank of several has a part of it.
struct TimedStep {
  StepTime time;
  std::vector<StepWork> last_micro_batch;  // one a step of its schedule
};
std::optional<TimedStep> timed_step(const RankStep& step, const StepUpdate& update, HostCopy copy,
                                    const TimeModel& constants);

}  // namespace gpuplan
