// What one rank of torch.distributed.pipelining does with its micro-batches in a step, in order (schedules.py, stage.py
// of PyTorch 2.15).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/distributed/strategy.h"

namespace gpuplan {

struct PipelineAction {
  enum class Kind : std::uint8_t {
    receive,           // the buffer of hidden states is allocated
    forward,           // with the loss, on the last stage
    let_output_go,     // it has been sent
    receive_gradient,  // the buffer of the output's gradient is allocated
    backward,          // what the micro-batch was given goes when it has returned
    let_received_go,   // the output's gradient
    let_gradient_go,   // that of the hidden states has been sent
    unshard,           // FSDP2 gathers the stage
    reshard,           // and lets it go
    reduce,            // the gradients of all micro-batches
    backward_input,    // the gradient of the hidden states alone; of the first stage nothing
    backward_weight    // those of weights, and what the micro-batch was given goes
  };
  Kind kind = Kind::forward;
  std::int32_t stage = 0;  // which of the rank's
  std::int32_t micro_batch = 0;
  bool operator==(const PipelineAction&) const = default;
};

/// Of the rank of `strategy`. Throws Error, of kind usage, for numbers of micro-batches that its schedule refuses.
std::vector<PipelineAction> pipeline_actions(const Strategy& strategy, std::int64_t micro_batches);

/// Micro-batches of all its stages that have gone forward and not back, at the most.
std::int64_t most_in_flight(std::span<const PipelineAction> actions);

}  // namespace gpuplan
