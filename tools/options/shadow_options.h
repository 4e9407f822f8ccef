// The flags of gpuplan shadow, and what they ask of the runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "tools/options/output_options.h"
#include "validate/shadow/session.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// Flags as written; empty: not given.
struct ShadowOptions {
  std::string gpu, gpus, world, rank, capacity, runtime, steps, max_peak, snapshot, scratch, segments, events, launches,
      copy_limit, values, seed, routing, learn, learn_as;
  std::vector<std::string> vary;
  bool until_stable = false, no_compile = false;
  OutputOptions output;
  std::vector<std::string> stray_words;  // before --, where no command belongs
  std::vector<std::string> command;
};

void add_shadow_options(CLI::App& command, ShadowOptions& options);

struct ShadowRun {
  Gpu gpu;
  shadow::Settings settings;
  std::optional<std::int64_t> max_peak_bytes;
  std::vector<std::string> assumed;   // what the description of the GPU takes for granted, for `unknown`
  std::vector<std::string> warnings;  // sentences without an end
};

/// Throws Error (usage) for a value that is not understood and for flags that contradict each other.
ShadowRun shadow_run(const ShadowOptions& options);

}  // namespace gpuplan
