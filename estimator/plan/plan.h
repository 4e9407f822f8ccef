// The entry point: make_plan() plans a model, report_of() turns the plan into figures.
#pragma once

#include <optional>

#include "estimator/allocator/loop_replay.h"
#include "estimator/device/gpu.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/layer.h"
#include "estimator/plan/live_bytes.h"
#include "estimator/plan/report.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// The plan of one rank: what it runs, and the memory that it needs. A job is one plan for each rank that differs.
struct Plan {
  const Model* model = nullptr;  // outlives the plan
  bool names_gpu = false;        // else step.gpu is an A100-class device that is assumed
  RankStep step;
  LoopReplay replay;     // replayed through PyTorch's allocator
  LiveBytes live_bytes;  // of tensors alone

  const Gpu* named_gpu() const { return names_gpu ? &step.gpu : nullptr; }
  /// The same on another GPU, which reserves alike (search/device_bytes.h); nullptr: on one that nobody named.
  void move_to(const Gpu* gpu);
  /// Places what `step` is now.
  void replay_step();
};

/// Plans one training step or inference of `model`, as `strategy.rank` runs it. A single GPU, DDP, DDP with
/// ZeroRedundancyOptimizer and FSDP2 are replayed allocation by allocation; for ZeRO-2 and 3, the states that a rank
/// holds by definition are combined with the rest of a single GPU's peak. `run.batch` counts the samples of all ranks.
/// `gpu` == nullptr: an A100-class device is assumed, which the warnings say. `calls`: also records operands, for step
/// times and for execution. Throws Error, with the position in the spec, for a model or run that PyTorch would refuse,
/// and whatever make_step() throws.
Plan make_plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr,
               const Strategy& strategy = {}, bool calls = false);

/// The plan within what the named GPU can hand out; nothing where it fits, where no size is known, and under other
/// allocators than PyTorch's.
std::optional<LimitedReplay> replay_in_gpu(const Plan& plan);

/// The numbers of a plan; `topology`: what connects the ranks.
Report report_of(const Plan& plan, const Topology& topology = {});

/// report_of(make_plan(...)), of one GPU.
Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr);

/// To be shown with every figure of ZeRO-2 or 3 that by_definition() says of.
constexpr const char* kDeepSpeedWarning =
    "ZeRO stages 2 and 3 are planned by definition: DeepSpeed's buffers and PyTorch's cache come on top, and in stage "
    "3 the parameters that DeepSpeed keeps gathered; --precision bf16 or fp16, without --amp, plans them as they run";

}  // namespace gpuplan
