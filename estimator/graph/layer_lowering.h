// The part of LayerBuilder's interface that only build_graph uses, not layers.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan {

class LayerLowering {
 public:
  LayerLowering(Graph& graph, const RunConfig& run, const Gpu& gpu) : builder_(graph, run, gpu) {}

  LayerBuilder& builder() { return builder_; }
  /// Binds the arguments, lowers, and returns the outputs.
  const std::vector<TensorId>& lower(const LoweredCall& call, std::span<const TensorId> inputs);
  TensorId new_tensor(const Shape& shape, DType dtype, Category category) {
    return builder_.new_tensor(shape, dtype, category);
  }
  /// A part of the step's batch: its storage is that of the whole batch, its shape a micro-batch's.
  TensorId new_input(const Shape& shape, DType dtype) { return builder_.new_input(shape, dtype); }
  /// What return_beside() was given since the last time.
  std::vector<LayerBuilder::Returned> take_returned() { return std::exchange(builder_.returned_, {}); }
  /// From here on layers run without autocast, or as the run says; returns what it was.
  bool leave_autocast(bool leave) { return std::exchange(builder_.without_autocast_, leave); }
  /// From here on layers run without gradients, or as the run says; returns what it was.
  bool leave_grad(bool leave) { return std::exchange(builder_.without_grad_, leave); }
  /// Ends autocast's context and clears its weight cache.
  void end_autocast();
  /// Takes a weight's cast out of autocast's cache where it is this tensor or a later one.
  void forget_cast(TensorId weight, TensorId first);

 private:
  LayerBuilder builder_;
};

}  // namespace gpuplan
