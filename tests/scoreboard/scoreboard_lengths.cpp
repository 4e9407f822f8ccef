// Loops whose batches are of unequal length: every step against PyTorch's CUDA code
// (tests/recorders/unequal_lengths.py). A run is called by the flags that plan it.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "tests/support/recorded_phases.h"
#include "tools/answers/unequal_lengths.h"

namespace gpuplan {
namespace {

LengthsReport planned_loop(const std::string& root, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  LengthsOptions lengths;
  add_run_options(app, options);
  app.add_option("--seq-lengths", lengths.lengths);
  app.parse(flags);
  options.model = root + "/tests/recorded/fine_tuning/models/" + options.model + ".json";
  lengths.lengths = root + "/tests/recorded/lengths/" + lengths.lengths;
  options.gpu = std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml";
  // What runs.txt says of flags that a run does not name.
  if (options.batch.empty()) options.batch = "4";
  if (options.optimizer.empty()) options.optimizer = "sgd";
  return unequal_lengths(options, lengths);
}

}  // namespace

Scored score_lengths(const std::string& root) {
  Scored scored;
  std::string run;
  LengthsReport loop;
  for (const RecordedPhase& p : read_recorded_phases(root + "/tests/recorded/lengths/h200.tsv", 3)) {
    if (p.words[0] != run) loop = planned_loop(root, p.words[0]);
    run = p.words[0];
    const auto step = static_cast<std::size_t>(std::atoi(p.words[1].c_str()) - 1);
    ScoreRow row{.suite = "lengths h200", .run = run, .quantity = "step " + p.words[1] + ".live"};
    score_reading(scored.rows, row, p.live, loop.steps.at(step).live);
    row.quantity = "step " + p.words[1] + ".peak";
    score_reading(scored.rows, row, p.peak, loop.steps.at(step).peak);
  }
  return scored;
}

}  // namespace gpuplan
