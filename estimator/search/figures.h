// Of a plan what a search or a sweep of thousands asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/allocator/loop_replay.h"
#include "estimator/device/gpu.h"
#include "estimator/distributed/collectives.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/plan/timing.h"
#include "estimator/search/sweep_row.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct PlannedFigures {
  SweepFigures figures;
  std::vector<std::string> warnings;
};

/// Whether a part of the step is on the host: it is planned whole then.
inline bool on_host(const RunConfig& run) { return run.offload_saved || run.offload_optimizer; }

/// A step planned once for all GPUs that reserve alike (reserve_alike).
class PlannedStep {
 public:
  /// `model` must outlive it. `timed`: time() will be asked. Throws what plan() does for the model and the run; not
  /// what it throws for a GPU's arithmetic.
  PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, bool timed = false);
  /// The same of a step that is lowered already, by that model and run; it must outlive this.
  PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, RankStep& lowered);

  PlannedStep(const PlannedStep&) = delete;  // refers to what it owns
  PlannedStep& operator=(const PlannedStep&) = delete;

  /// sweep_figures() and the warnings of plan(model, catalog, run, named_gpu). Throws what that does.
  PlannedFigures figures(const Gpu* named_gpu) const;
  /// step_time() of it on `gpu`.
  std::optional<StepTime> time(const Gpu& gpu, HostCopy copy);

 private:
  void tell_limit(const Gpu& gpu, SweepFigures& figures) const;

  const Model& model_;
  Catalog catalog_;
  RunConfig run_;
  std::optional<RankStep> own_;
  RankStep* step_ = nullptr;  // null: sums of what is on the host are checked by a whole plan
  LoopReplay replay_;
};

/// Of the plan of one rank, whose batch is the whole step's; with a copy of the batch also what rank_time() says, where
/// it says something.
PlannedFigures rank_figures(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                            const Topology& topology, const Gpu* gpu, std::optional<HostCopy> timed = std::nullopt);

/// Of one GPU, or the one that is assumed.
PlannedFigures plan_figures(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr);

}  // namespace gpuplan
