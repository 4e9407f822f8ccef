// The flags of `gpuplan fit`, as the question that they ask.
#pragma once

#include <string>
#include <vector>

#include "estimator/market/instance.h"
#include "estimator/search/fit_question.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// Flags as written; empty: not given.
struct FitOptions {
  RunOptions run;
  OutputOptions output;
  std::vector<std::string> on, providers, gpus, zero, may;
  std::vector<std::string> join;  // files of parts
  std::string search;             // the command without --shard and what is of the output, by which parts are one
  std::string max_batch, region, budget, prices, emit, samples, epochs, network, wrap, fsdp, experts, solve, shard;
  bool spot = false, find_unused = false;

  /// No GPU is named: all of the table are asked.
  bool all_gpus() const { return on.empty() && run.gpu.empty(); }
};

void add_fit_options(CLI::App& command, FitOptions& options);
/// The GPUs that --on or --gpu name, as it names them; of the table all. Throws Error for one that is named twice, is
/// not known, or has no known memory.
std::vector<Gpu> gpus_of(const FitOptions& options);
/// Throws Error (usage) for values that are not understood and flags that contradict each other.
FitQuestion question_of(const FitOptions& options);

}  // namespace gpuplan
