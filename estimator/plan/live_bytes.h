// Live bytes of tensors alone: each rounded up to 512 bytes, without scratch and without an allocator. This is what one
// would see by observing PyTorch's tensors.
#pragma once

#include <cstdint>

#include "estimator/distributed/rank_step.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

struct LiveBytes {
  std::int64_t after_model = 0;  // parameters and buffers
  std::int64_t start = 0;        // with optimizer state, inputs and targets, after zero_grad
  std::int64_t forward_end = 0, loss_end = 0, backward_end = 0, end = 0;
  std::int64_t forward_peak = 0, loss_peak = 0, backward_peak = 0, optimizer_peak = 0;
  std::int64_t optimizer_state = 0;
  std::int64_t peak = 0;
  Phase phase = Phase::forward;
  std::int32_t step = kNone;  // of Schedule::steps
  std::size_t pass = 0;       // of which schedule
};

/// Levels of the reported step. With --loop function the output and the loss live until the step function
/// returns, through the optimizer; with loss_only the loss alone.
LiveBytes live_bytes_of(const RankStep& step);

}  // namespace gpuplan
