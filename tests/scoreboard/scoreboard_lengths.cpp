// Loops whose batches are of unequal length, and those with an evaluation: every step against PyTorch's CUDA code
// (tests/recorders/unequal_lengths.py and evaluation.py). A run is called by the flags that plan it.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/support/recorded_phases.h"
#include "tools/answers/evaluation.h"
#include "tools/answers/unequal_lengths.h"

namespace gpuplan {
namespace {

// What runs.txt says of flags that a run does not name.
void complete(RunOptions& options, const std::string& root) {
  options.model = root + "/tests/recorded/fine_tuning/models/" + options.model + ".json";
  options.gpu = std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml";
  if (options.batch.empty()) options.batch = "4";
}

LengthsReport unequal_loop(const std::string& root, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  LengthsOptions lengths;
  add_run_options(app, options);
  app.add_option("--seq-lengths", lengths.lengths);
  app.parse(flags);
  complete(options, root);
  lengths.lengths = root + "/tests/recorded/lengths/" + lengths.lengths;
  if (options.optimizer.empty()) options.optimizer = "sgd";
  return unequal_lengths(options, lengths);
}

LengthsReport evaluated_loop(const std::string& root, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  EvaluationOptions evaluation;
  add_run_options(app, options);
  add_evaluation_options(app, evaluation);
  app.parse(flags);
  complete(options, root);
  if (options.seq.empty()) options.seq = "512";
  return with_evaluation(options, evaluation);
}

Scored score_loops(const std::string& root, const std::string& folder,
                   const std::function<LengthsReport(const std::string&, const std::string&)>& plan) {
  Scored scored;
  std::string run;
  LengthsReport loop;
  for (const RecordedPhase& p : read_recorded_phases(root + "/tests/recorded/" + folder + "/h200.tsv", 3)) {
    if (p.words[0] != run) loop = plan(root, p.words[0]);
    run = p.words[0];
    const auto step = static_cast<std::size_t>(std::atoi(p.words[1].c_str()) - 1);
    ScoreRow row{.suite = folder + " h200", .run = run, .quantity = "step " + p.words[1] + ".live"};
    score_reading(scored.rows, row, p.live, loop.steps.at(step).live);
    row.quantity = "step " + p.words[1] + ".peak";
    score_reading(scored.rows, row, p.peak, loop.steps.at(step).peak);
  }
  return scored;
}

}  // namespace

Scored score_lengths(const std::string& root) { return score_loops(root, "lengths", unequal_loop); }
Scored score_evaluations(const std::string& root) { return score_loops(root, "evaluation", evaluated_loop); }

}  // namespace gpuplan
