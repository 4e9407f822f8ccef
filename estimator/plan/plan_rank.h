// The table of contents of several GPUs: one call from a model and a strategy to what one rank takes.
#pragma once

#include "estimator/plan/plan.h"
#include "estimator/plan/rank_plan.h"

namespace gpuplan {

/// Whoever shows ZeRO-2's or 3's bytes says so, too.
constexpr const char* kDeepSpeedWarning =
    "ZeRO's stages 2 and 3 are planned by their definition: buffers of DeepSpeed and PyTorch's cache come on top, "
    "and in stage 3 the parameters that it keeps gathered";

/// What `strategy.rank` of a data-parallel group takes. none, DDP, DDP with ZeroRedundancyOptimizer and FSDP2 are
/// planned allocation by allocation; zero2 and zero3 have their states by definition beside all else of one GPU's peak.
/// `run.batch` is the whole step's, of all ranks. Throws Error, of kind usage, for a batch that the ranks do not
/// divide, and for loops that are not planned with several GPUs.
RankPlan plan_rank(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                   const Topology& topology, const Gpu* gpu = nullptr);
/// plan_rank(...).report.peak.reading.reserved_bytes, for a search that asks for little else.
std::int64_t rank_reserved_bytes(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                                 const Gpu& gpu);

}  // namespace gpuplan
