// How long a step takes stages that wait for each other: the actions of torch.distributed.pipelining's schedules, each
// begun when its stage is free and what it needs has come.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/distributed/strategy.h"

namespace gpuplan {

struct StageSeconds {
  double forward = 0, backward = 0;  // of one micro-batch
  double weight = 0;                 // the same of its gradients of weights, where they are computed apart
  double send = 0;                   // of a micro-batch's hidden states to the next stage, and of their gradient back
};

/// The step of the rank that ends last. `stages`: all of `strategy`; `after`: what each rank, by its place in the
/// pipeline, does once all are through: reductions, clipping, the optimizer.
double pipelined_seconds(std::span<const StageSeconds> stages, std::span<const double> after, const Strategy& strategy,
                         std::int64_t micro_batches);

}  // namespace gpuplan
