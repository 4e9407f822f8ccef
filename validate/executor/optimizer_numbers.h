// The numbers that torch.optim is called with where a plan is run: its defaults, and these where a plan only says that
// something is on.
#pragma once

#include "estimator/run_config.h"

namespace gpuplan {

struct OptimizerNumbers {
  double learning_rate = 1e-3;
  double momentum = 0;      // SGD, RMSprop
  double weight_decay = 0;  // AdamW: decoupled
  double beta1 = 0.9, beta2 = 0.999;
  double alpha = 0.99;  // RMSprop
  double eps = 1e-8;
};

constexpr OptimizerNumbers optimizer_numbers(const OptimizerConfig& config) {
  OptimizerNumbers n;
  if (config.kind == OptimizerKind::rmsprop || config.kind == OptimizerKind::adagrad) n.learning_rate = 1e-2;
  if (config.kind == OptimizerKind::adagrad) n.eps = 1e-10;
  if (config.momentum) n.momentum = 0.9;
  if (config.weight_decay || config.kind == OptimizerKind::adamw) n.weight_decay = 1e-2;
  return n;
}

constexpr double kClippedNorm = 1;  // clip_grad_norm_'s max_norm

}  // namespace gpuplan
