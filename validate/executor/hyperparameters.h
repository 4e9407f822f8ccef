// What an optimizer is run with: torch.optim's defaults, and where RunConfig only says that there is one, 0.9 for
// momentum and 0.01 for weight decay, AdamW's. They change no byte of a plan.
#pragma once

#include "estimator/run_config.h"

namespace gpuplan {

struct Hyperparameters {
  double rate = 0;  // lr
  double momentum = 0, weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  // Adam, AdamW
  double alpha = 0.99;                // RMSprop
  double eps = 1e-8;
};

constexpr Hyperparameters hyperparameters(const OptimizerConfig& config) {
  Hyperparameters h;
  const bool slow =
      config.kind == OptimizerKind::sgd || config.kind == OptimizerKind::adam || config.kind == OptimizerKind::adamw;
  h.rate = slow ? 1e-3 : 1e-2;  // of Adagrad and RMSprop
  h.momentum = config.momentum ? 0.9 : 0;
  h.weight_decay = config.weight_decay || config.kind == OptimizerKind::adamw ? 0.01 : 0;
  h.eps = config.kind == OptimizerKind::adagrad ? 1e-10 : 1e-8;
  return h;
}

/// What clip_grad_norm_ is called with, and what it adds to the norm that it divides by.
constexpr double kMaxNorm = 1, kNormEps = 1e-6;

}  // namespace gpuplan
