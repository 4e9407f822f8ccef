// What an optimizer is run with: torch.optim's defaults, and where RunConfig only says that there is one, 0.9 for
// momentum and 0.01 for weight decay, AdamW's. They change no byte of a plan.
#pragma once

#include "estimator/spec/run_config.h"

namespace gpuplan {

struct Hyperparameters {
  double rate = 0;  // lr
  double momentum = 0, weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  // Adam, AdamW, NAdam, RAdam, Adamax
  double alpha = 0.99;                // RMSprop
  double rho = 0.9;                   // Adadelta
  double momentum_decay = 4e-3;       // NAdam
  double eps = 1e-8;
};

constexpr double learning_rate(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::none:
    case OptimizerKind::sgd:
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::radam: return 1e-3;
    case OptimizerKind::nadam:
    case OptimizerKind::adamax: return 2e-3;
    case OptimizerKind::rmsprop:
    case OptimizerKind::adagrad: return 1e-2;
    case OptimizerKind::adadelta: return 1;
  }
  return 0;
}

constexpr Hyperparameters hyperparameters(const OptimizerConfig& config) {
  Hyperparameters h;
  h.rate = learning_rate(config.kind);
  h.momentum = config.momentum ? 0.9 : 0;
  h.weight_decay = config.weight_decay || config.kind == OptimizerKind::adamw ? 0.01 : 0;
  if (config.kind == OptimizerKind::adagrad) h.eps = 1e-10;
  if (config.kind == OptimizerKind::adadelta) h.eps = 1e-6;
  return h;
}

/// What clip_grad_norm_ is called with, and what it adds to the norm that it divides by.
constexpr double kMaxNorm = 1, kNormEps = 1e-6;

/// torch.amp.GradScaler's defaults: steps without an infinity before the scale grows.
constexpr double kScaleGrowth = 2, kScaleBackoff = 0.5;
constexpr int kScaleGrowthInterval = 2000;

}  // namespace gpuplan
