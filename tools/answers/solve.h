// gpuplan fit --solve NAME: the largest value of a flag that each GPU has room for.
#pragma once

#include <string>
#include <vector>

#include "estimator/search/sweep_row.h"
#include "tools/options/run_options.h"

namespace gpuplan {

struct SolveQuestion {
  RunOptions run;
  std::string name;  // "seq", "batch", "rank", "layers", "micro-batches", or "set.NAME"
  std::vector<std::string> gpus;
  std::string most;  // no value above it: --max-batch N of --solve batch
};

struct SolvedRow {
  SweepRow row;              // values: the GPU, and the value
  std::string flags;         // that say it: "--seq 4096", "--lora r=64,..."
  bool models_most = false;  // the model refuses a larger one
  bool fits() const { return row.figures && row.figures->fits; }
};

/// A row a GPU: the largest value that fits while the next one does not, or the least that can be run where none fits;
/// of micro-batches the fewest. Throws Error (usage) for a name that is no number of a run, for one that is given
/// besides, and what every value is refused for.
std::vector<SolvedRow> solve(const SolveQuestion& question);

}  // namespace gpuplan
