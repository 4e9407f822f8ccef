// --eval-batch, --eval-batches, --eval-logits and --eval-accumulation-steps: an evaluation between steps of training.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "estimator/spec/run_config.h"

namespace gpuplan {

struct EvaluationOptions {
  std::string batch, steps, accumulation;  // as written; empty: not given
  bool logits = false;
};

struct EvaluationLoop {
  std::int64_t batch = 0, steps = 0;
  EvaluationConfig config;
};

void add_evaluation_options(CLI::App& command, EvaluationOptions& options);
/// Whether there is one. Throws Error (usage) for its other flags without --eval-batch.
bool asks_for_evaluation(const EvaluationOptions& options);
/// Throws Error (usage) for what is not understood.
EvaluationLoop evaluation_loop(const EvaluationOptions& options);

}  // namespace gpuplan
