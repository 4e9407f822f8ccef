// Optimizers over many tensors at once.
#pragma once

#include <cstdint>

#include "estimator/base/dtype.h"
#include "validate/cuda/kernels/launch.h"

namespace gpuplan::cuda {

enum class Update : std::uint8_t { sgd, adam, adamw, rmsprop, adagrad, adadelta, nadam, radam, adamax };

/// Already multiplied by what depends on the step only.
struct UpdateNumbers {
  double learning_rate = 0, momentum = 0, weight_decay = 0, beta1 = 0, beta2 = 0, alpha = 0, eps = 0;
  double correction1 = 1, correction2 = 1;  // Adam: 1 - beta^step
  double average_rate = 0;                  // NAdam: of the average, as the learning rate is of the gradient
  bool nesterov = false, centered = false, amsgrad = false;
  bool adapted = true;  // RAdam: from the sixth step on
};

constexpr int kMostTensors = 36;  // of one launch: its arguments fill less than 4 KiB

/// Dense tensors of one type; states are in the order of the update's formulas, null where it has none.
struct UpdateTensors {
  int count = 0;
  void* parameters[kMostTensors];
  void* gradients[kMostTensors];
  void* states[3][kMostTensors];
  std::int64_t elements[kMostTensors];
  std::uint32_t first_block[kMostTensors + 1];  // filled by the launch
};

void update(const LaunchContext& context, Update kind, DType dtype, UpdateTensors tensors,
            const UpdateNumbers& numbers);

/// Scales all tensors by min(1, most / (norm + eps)), of the norm of everything in them. Only `gradients` and
/// `elements` are read. Three calls: add up each batch, find the factor, apply it to each batch.
std::int64_t norm_blocks(const UpdateTensors& tensors);
void add_squares(const LaunchContext& context, DType dtype, UpdateTensors tensors, std::int64_t first_block);
void find_factor(const LaunchContext& context, std::int64_t blocks, double most, double eps);
void apply_factor(const LaunchContext& context, DType dtype, UpdateTensors tensors);

/// torch.amp.GradScaler: divides by the scale, and sets found_inf to 1 where an element is not finite. Only `gradients`
/// and `elements` are read.
void unscale(const LaunchContext& context, DType dtype, UpdateTensors tensors, const float* scale, float* found_inf);
struct ScaleRule {
  float growth = 1, backoff = 1;
  int interval = 1;  // steps without an infinity before the scale grows
};
void update_scale(const LaunchContext& context, float* scale, int* growth_tracker, const float* found_inf,
                  ScaleRule rule);

}  // namespace gpuplan::cuda
