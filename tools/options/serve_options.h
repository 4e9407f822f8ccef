// The flags of an engine's start.
#pragma once

#include <string>

#include "estimator/serve/engine_start.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// As written; empty: not given.
struct ServeOptions {
  std::string engine, length, utilization, batched_tokens, sequences, tensor_ranks, cache, weights, lora;
  bool eager = false, compiled = false;
};

void add_serve_options(CLI::App& command, ServeOptions& options);

/// Throws Error (usage) for a value that is not understood.
ServeSettings serve_settings(const ServeOptions& options);

}  // namespace gpuplan
