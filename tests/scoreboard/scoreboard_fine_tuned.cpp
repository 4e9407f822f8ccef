// Models that transformers, peft and bitsandbytes fine-tune: every figure of the first and the third step against
// PyTorch's CUDA code (tests/recorders/fine_tuning.py). A run is called by the flags that plan it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

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
  otherwise(options.loop, "function");
}

Report planned(const std::string& folder, const std::string& flags) {
  CLI::App app;
  RunOptions options;
  add_run_options(app, options);
  app.parse(flags);
  options.model = folder + "models/" + options.model + ".json";
  fill_in(options);
  static const Gpu h200 = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml"));
  return plan(load_model(options), make_catalog(), run_config(options), &h200);
}

}  // namespace

Scored score_fine_tuned(const std::string& root) {
  const std::string folder = root + "/tests/recorded/fine_tuning/";
  Scored scored;
  std::string planned_run;
  Report report;
  for (const RecordedPhase& p : read_recorded_phases(folder + "h200.tsv", 3)) {
    if (p.words[0] != planned_run) report = planned(folder, p.words[0]);
    planned_run = p.words[0];
    score_phase(scored.rows, {.suite = "fine-tuned h200", .run = p.words[0], .quantity = ""}, p.words[1] == "steady",
                p.words[2], p, report);
  }
  return scored;
}

}  // namespace gpuplan
