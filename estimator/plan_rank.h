// The table of contents of several GPUs: one call from a model and a strategy to what one rank takes.
#pragma once

#include "estimator/parallel/strategy.h"
#include "estimator/plan.h"

namespace gpuplan {

/// What `strategy.rank` of a data-parallel group takes, allocation by allocation: none, DDP, DDP with
/// ZeroRedundancyOptimizer, and FSDP2. `run.batch` is the whole step's, of all ranks. Throws Error, of kind usage, for
/// a batch that the ranks do not divide, and for what is not planned by allocation: other ways of sharing, and loops
/// that PyTorch would not run so.
Report plan_rank(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                 const Gpu* gpu = nullptr);

}  // namespace gpuplan
