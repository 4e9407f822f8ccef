// Models that transformers, peft and bitsandbytes fine-tune: every figure of the first and the third step against
// PyTorch's CUDA code (tests/recorders/fine_tuning.py). A run is called by the flags that plan it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/device/read_gpu.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/recorded_phases.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

// What runs.txt says of flags that a run does not name.
void fill_in(RunOptions& options) {
  const auto otherwise = [](std::string& option, const char* value) {
    if (option.empty()) option = value;
  };
  otherwise(options.batch, "4");
  otherwise(options.seq, "512");
  if (options.like.empty()) otherwise(options.loop, "function");
}

Report planned(const std::string& root, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  add_run_options(app, options);
  app.parse(flags);
  options.model = root + "/tests/recorded/fine_tuning/models/" + options.model + ".json";
  fill_in(options);
  static const Gpu h200 = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml"));
  return plan(load_model(options), make_catalog(), run_config(options), &h200);
}

// A trainer calls its callbacks before a step, before its optimizer's and after that: peaks are those since the last
// one.
Report at_callbacks(Report report) {
  std::vector<PhaseRow> rows;
  Reading peak;
  const auto clips = [&](const PhaseRow& r) { return r.phase == Phase::clip; };
  const Phase before_optimizer = std::ranges::any_of(report.phases, clips) ? Phase::clip : Phase::backward;
  for (PhaseRow row : report.phases) {
    peak = {std::max(peak.requested_bytes, row.peak.requested_bytes),
            std::max(peak.allocated_bytes, row.peak.allocated_bytes),
            std::max(peak.reserved_bytes, row.peak.reserved_bytes)};
    if (row.phase != Phase::start && row.phase != before_optimizer && row.phase != Phase::optimizer) continue;
    if (row.phase == before_optimizer) row.phase = Phase::clip;
    row.peak = std::exchange(peak, {});
    rows.push_back(row);
  }
  report.phases = std::move(rows);
  return report;
}

Scored score_runs(const std::string& root, const std::string& folder, const std::string& suite,
                  const std::function<Report(Report)>& seen) {
  Scored scored;
  std::string planned_run;
  Report report;
  for (const RecordedPhase& p : read_recorded_phases(root + "/tests/recorded/" + folder + "/h200.tsv", 3)) {
    if (p.words[0] != planned_run) report = seen(planned(root, p.words[0]));
    planned_run = p.words[0];
    score_phase(scored.rows, {.suite = suite, .run = p.words[0], .quantity = ""}, p.words[1] == "steady", p.words[2], p,
                report);
  }
  return scored;
}

}  // namespace

Scored score_fine_tuned(const std::string& root) {
  return score_runs(root, "fine_tuning", "fine-tuned h200", std::identity());
}

Scored score_trainers(const std::string& root) { return score_runs(root, "trainers", "trainers h200", at_callbacks); }

}  // namespace gpuplan
