// The table of contents: one call from a model to the numbers.
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

/// What one rank runs and what that takes. A job is the plans of the ranks that differ.
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

/// Plans one step, or an inference, of `model`, as `strategy.rank` runs it: none, DDP, DDP with
/// ZeroRedundancyOptimizer and FSDP2 allocation by allocation; ZeRO-2 and 3 have their states by definition beside all
/// else of one GPU's peak. `run.batch` is the whole step's, of all ranks. `gpu` == nullptr: an A100-class device is
/// assumed, and said in the warnings. `calls`: a time will be asked for, or a device. Throws Error for a model or run
/// that PyTorch would refuse, with the place in the spec, and as make_step() does.
Plan make_plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr,
               const Strategy& strategy = {}, bool calls = false);

/// The plan within what the named GPU can hand out; nothing where it fits, where no size is known, and under other
/// allocators than PyTorch's.
std::optional<LimitedReplay> replay_in_gpu(const Plan& plan);

/// The numbers of a plan; `topology`: what connects the ranks.
Report report_of(const Plan& plan, const Topology& topology = {});

/// report_of(make_plan(...)), of one GPU.
Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr);

/// Whoever shows ZeRO-2's or 3's bytes says so, too.
constexpr const char* kDeepSpeedWarning =
    "ZeRO's stages 2 and 3 are planned by their definition: buffers of DeepSpeed and PyTorch's cache come on top, "
    "and in stage 3 the parameters that it keeps gathered";

}  // namespace gpuplan
