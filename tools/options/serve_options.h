// The flags of an engine's start.
#pragma once

#include <string>
#include <string_view>

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

/// "16384", "16k" (16,000), "16K" (16,384), as vLLM reads lengths. Throws Error (usage).
std::int64_t token_count(std::string_view flag, const std::string& text);

void add_serve_options(CLI::App& command, ServeOptions& options);

/// Throws Error (usage) for a value that is not understood.
ServeSettings serve_settings(const ServeOptions& options);

}  // namespace gpuplan
