// What a call of any operator allocated where PyTorch's own code ran it, in the words that a spec has for it
// (layers/recorded_operator.cpp lists them).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan::aten {

/// What the words' amounts and types mean in a plan.
struct RecordedAt {
  std::int64_t batch = 1;
  DType type = DType::fp32;  // `float`: that of the operands
  DType amp = DType::bf16;   // `amp`: autocast's
};

/// A forward or a backward call.
struct RecordedCall {
  static constexpr int kSaved = -1;  // of a result that only the backward reads
  static constexpr int kHeld = -2;   // of such a result, which goes with the graph
  ScratchProgram program;            // as it ran; the results are in it
  std::vector<OutputSpec> results;   // in the order in which they were allocated
  /// Of each result: of forward its place among the outputs, kSaved or kHeld; of backward whose gradient it is.
  std::vector<int> of;
  std::int64_t macs = 0;
  std::vector<int> kept_inputs, kept_outputs;  // forward: what backward keeps of them, by their places
  std::vector<int> held_inputs;                // and what goes with the graph, not with the backward
  struct Same {
    int input = 0, output = 0;
  };
  std::vector<Same> in_place;  // forward: outputs that are inputs, changed in place
  std::vector<Same> passed;    // backward: the gradient of the input is that of the output itself
  // Backward: the gradient of the input is written over another input, or over a result that only the backward reads.
  struct Over {
    int input = 0, other = 0;
  };
  std::vector<Over> over_inputs, over_saved;  // of `over_saved` the place among what the forward saved
};

/// Read from the words of an argument. Throw Error at it.
RecordedCall recorded_forward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at);
/// inputs: the operands, whose shapes and types their gradients have. outputs: how many have gradients. saved: how many
/// results the forward made for it.
RecordedCall recorded_backward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at,
                               std::span<const TensorId> inputs, int outputs, int saved);

}  // namespace gpuplan::aten
