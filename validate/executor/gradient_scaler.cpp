#include "validate/executor/gradient_scaler.h"

#include "estimator/optimizer/grad_scaler.h"
#include "validate/executor/hyperparameters.h"
#include "validate/executor/placed_kernels.h"

namespace gpuplan {

void GradientScaler::made(bool by_step, std::int32_t slot, std::uint64_t address) {
  if (by_step) {
    if (slot == kFoundInfSlot) values_.found_inf = pointer(address);
  } else if (slot == kScaleSlot) {
    values_.scale = pointer(address);
  } else if (slot == kGrowthTrackerSlot) {
    values_.growth_tracker = pointer(address);
  }
}

std::uint64_t GradientScaler::begin() {
  const auto scale = static_cast<float>(kInitialScale);
  const std::int32_t tracker = 0;
  device_.copy_to_device(values_.scale, &scale, sizeof scale);
  device_.copy_to_device(values_.growth_tracker, &tracker, sizeof tracker);
  return reinterpret_cast<std::uint64_t>(values_.scale);
}

void GradientScaler::unscale(std::span<const KernelTensor> gradients) {
  device_.fill_bytes(values_.found_inf, sizeof(float), 0);
  device_.unscale_gradients(gradients, values_);
}

bool GradientScaler::found_inf() { return read(values_.found_inf) != 0; }
double GradientScaler::scale() { return static_cast<double>(read(values_.scale)); }

float GradientScaler::read(const void* from) {
  float value = 0;
  device_.synchronize();
  device_.copy_to_host(&value, from, sizeof value);
  return value;
}

}  // namespace gpuplan
