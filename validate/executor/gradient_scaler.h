// torch.amp.GradScaler of a loop that scales its loss. Its values lie where the plan allocates them: the scale and the
// growth tracker from the first backward on, found_inf while a step runs.
#pragma once

#include <cstdint>
#include <span>

#include "validate/executor/device.h"

namespace gpuplan {

class GradientScaler {
 public:
  explicit GradientScaler(Device& device) : device_(device) {}

  /// A tensor of the scaler's program or of the optimizer's (estimator/optimizer/grad_scaler.h).
  void made(bool by_step, std::int32_t slot, std::uint64_t address);
  /// The scale begins with 65536, the growth tracker with 0. Returns where the scale is.
  std::uint64_t begin();
  /// Divides the gradients by the scale and notes whether one of them is not finite.
  void unscale(std::span<const KernelTensor> gradients);
  /// Waits for the device: whether the step is to be left out.
  bool found_inf();
  /// Halves the scale after a step that was left out, doubles it after 2000 that were not.
  void update() { device_.update_scale(values_); }
  /// Waits for the device.
  double scale();

 private:
  float read(const void* from);

  Device& device_;
  ScalerValues values_;
};

}  // namespace gpuplan
