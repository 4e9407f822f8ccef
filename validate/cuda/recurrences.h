// Recurrent layers by cuDNN (cudnnRNNForward and its gradients), as aten/src/ATen/native/cudnn/RNN.cpp calls it: two
// biases a gate, sequences of one length with time first. Always by the standard algorithm, which every GPU has and the
// plan's workspace is enough for; PyTorch takes persistent kernels where its heuristics find them faster.
#pragma once

#include <cudnn.h>

#include <cstdint>

#include "estimator/operators/primitive.h"
#include "validate/cuda/kernels/launch.h"

namespace gpuplan::cuda {

/// Addresses of a call; null: absent. c of LSTMs only.
struct RecurrentTensors {
  void *x = nullptr, *y = nullptr, *hx = nullptr, *cx = nullptr, *hy = nullptr, *cy = nullptr;
  void *dx = nullptr, *dy = nullptr, *dhx = nullptr, *dcx = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *weights = nullptr, *dweights = nullptr;  // cuDNN's spaces
  void* reserve = nullptr;
  std::int64_t reserve_bytes = 0;
};

/// What is computed beside the plan's Recurrence.
struct RecurrentArguments {
  double dropout = 0;
  bool tf32 = false;
};

enum class WeightPart : std::uint8_t { input, state, input_bias, state_bias, projection };

class Recurrences {
 public:
  explicit Recurrences(cudnnHandle_t handle);
  Recurrences(const Recurrences&) = delete;
  Recurrences& operator=(const Recurrences&) = delete;
  ~Recurrences();

  /// Fills the random states that dropout draws with from now on; they stay where they are.
  void make_dropout_states(const LaunchContext& launch, void* states, std::int64_t bytes, std::uint64_t seed);

  /// Bytes of the workspace that a call needs. Throws Error where cuDNN has no such layers.
  std::int64_t workspace_bytes(const Recurrence& what, const RecurrentArguments& arguments);
  std::int64_t weight_bytes(const Recurrence& what, const RecurrentArguments& arguments);
  /// Where a layer and direction's matrices or biases lie in the space, gate after gate.
  void* weight_part(const Recurrence& what, const RecurrentArguments& arguments, void* space, std::int64_t pseudo_layer,
                    WeightPart part);

  void forward(const LaunchContext& launch, const Recurrence& what, const RecurrentArguments& arguments,
               const RecurrentTensors& t, void* workspace);
  void backward_input(const LaunchContext& launch, const Recurrence& what, const RecurrentArguments& arguments,
                      const RecurrentTensors& t, void* workspace);
  /// Adds to t.dweights.
  void backward_weight(const LaunchContext& launch, const Recurrence& what, const RecurrentArguments& arguments,
                       const RecurrentTensors& t, void* workspace);

 private:
  struct Descriptors;
  cudnnHandle_t handle_;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  void* states_ = nullptr;
  std::int64_t states_bytes_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace gpuplan::cuda
