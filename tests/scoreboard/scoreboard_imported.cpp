// Small models of every class of transformers that a config.json is imported as, with the heads, norms, masks and
// positions that the zoo's models do not have: every figure of their third step against PyTorch's CUDA code
// (tests/recorders/hugging_face_steps.py).
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "estimator/device/read_gpu.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tests/support/recorded_phases.h"
#include "tools/importers/hugging_face.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

Report planned(const std::string& folder, const std::string& model, bool infers) {
  RunConfig run;
  run.batch = 4;
  run.mode = infers ? Mode::infer : Mode::train;
  run.loop = Loop::function;
  SpecOptions options;
  const std::shared_ptr<const Source> config = read_file_source(folder + model + ".json");
  if (config->text.find("\"_attn_implementation\": \"eager\"") != std::string::npos) run.attention = Attention::eager;
  const std::shared_ptr<const Source> spec = hugging_face_spec(*config);
  if (spec->text.find("\n  seq: ") != std::string::npos) options.set.push_back({"seq", 64});
  if (spec->text.find("\n  target: ") != std::string::npos) options.set.push_back({"target", 32});
  static const Gpu h200 = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml"));
  return plan(read_model(spec, options), make_catalog(), run, &h200);
}

}  // namespace

Scored score_imported(const std::string& root) {
  const std::string folder = root + "/tests/huggingface/steps/";
  Scored scored;
  std::set<std::string> recorded;
  std::string planned_run;
  Report report;
  for (const RecordedPhase& p : read_recorded_phases(folder + "h200.tsv", 3)) {
    const std::string run = p.words[0] + " " + p.words[1];
    if (run != planned_run) report = planned(folder, p.words[0], p.words[1] == "infer");
    planned_run = run;
    recorded.insert(p.words[0]);
    score_phase(scored.rows, {.suite = "imported h200", .run = run, .quantity = ""}, true, p.words[2], p, report);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".json" && !recorded.contains(file.path().stem()))
      throw std::runtime_error(file.path().string() + " was not recorded");
  return scored;
}

}  // namespace gpuplan
