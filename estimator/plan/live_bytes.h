// The peak of pure tensor semantics: every tensor rounded up to 512 bytes, no scratch, no allocator. This is what
// an observer of PyTorch's tensors sees.
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
