// What one rank runs in a step, before its allocations are replayed. A single GPU is a strategy with one rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_memory.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/rank_stage.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/micro_batch_schedules.h"
#include "estimator/schedule/pruned_graph.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Schedules point into the graph: a RankStep is moved, never copied.
struct RankStep {
  RunConfig run;  // the rank's own: run.batch is its part
  Gpu gpu;
  Strategy strategy;
  Graph graph;
  MicroBatchSchedules micro_batches;
  OptimizerWork optimizer;  // of what the rank steps (rank_share.h)
  // Of a rank of torch.distributed.pipelining:
  std::vector<PipelineAction> pipeline;
  std::vector<RankStage> stages;
  StagePart part;
  std::unique_ptr<Graph> inferring;      // of the second schedule, which is run before the first step
  std::unique_ptr<SplitBackward> split;  // of the others, where backward is run in two parts
  std::vector<RankStep> joined;          // a step of each of several stages, which graph and schedules are made of
  // Of several GPUs:
  std::optional<CollectiveMemory> collectives;
  std::vector<FsdpUnit> units;  // FSDP2's, as the last micro-batch runs them
  StateBytes states;            // by the definition of the strategy (zero_states.h)
  OptimizerProgram saving;      // of a checkpoint, after the last step (RunConfig::save)

  RankStep() = default;
  RankStep(RankStep&&) = default;
  RankStep& operator=(RankStep&&) = default;

  /// Of the first micro-batch; where there are more, the last is that of all others.
  const Schedule& schedule() const { return micro_batches.schedules.front(); }
  const CollectiveMemory* beside() const { return collectives ? &*collectives : nullptr; }
};

/// Lowers the model once, to the step of `strategy.rank`; `run.batch` is the whole step's, of all ranks. `calls`: also
/// what operations are given, which a clock and a device ask for. Throws Error for a model or a run that PyTorch would
/// refuse; of kind usage for a batch that the ranks do not divide, and for loops that are not planned with several
/// GPUs.
RankStep make_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                   const Strategy& strategy = {}, bool calls = false);

/// What the step sends, and how long that takes where `topology` says what connects the ranks.
std::vector<CommunicationRow> communication(const RankStep& step, const Topology& topology);

}  // namespace gpuplan
