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
};

/// A forward or a backward call.
struct RecordedCall {
  static constexpr int kSaved = -1;  // of a result that only the backward reads
  ScratchProgram program;            // as it ran; the results are in it
  std::vector<OutputSpec> results;   // in the order in which they were allocated
  std::vector<int> of;  // each result: of forward its place among the outputs, or kSaved; of backward whose gradient
  std::int64_t macs = 0;
  /// Backward: the gradient of input `input` is that of output `output` itself.
  struct Passed {
    int input = 0, output = 0;
  };
  std::vector<Passed> passed;
};

/// Read from the words of an argument. `inputs`: of backward, whose shapes and types their gradients have. Throw Error
/// at the argument.
RecordedCall recorded_forward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at);
RecordedCall recorded_backward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at,
                               std::span<const TensorId> inputs, int outputs);

/// What backward keeps of the inputs and of the outputs, by their places.
struct RecordedSaved {
  std::vector<int> inputs, outputs;
};
RecordedSaved recorded_saved(const LayerBuilder& b, std::string_view argument, int inputs, int outputs);

}  // namespace gpuplan::aten
