// Steps of models that tools/python/gpuplan exported, recorded by tests/torch/export_record.py, beside the plans of
// the specs that it wrote.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/recorded_phases.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

// A line's words: of the run, and then the step and the phase.
struct Run {
  enum Column : std::size_t { model, gpu, scratch, mode, optimizer, batch, kColumns };
  std::vector<std::string> words;
  bool infers() const { return words[mode] == "infer"; }
  bool autocasts() const { return words[mode] == "train-bf16"; }
  std::string name() const {
    return words[model] + " b" + words[batch] + " " + (infers() ? words[mode] : words[optimizer]) +
           (autocasts() ? " bf16" : "");
  }
};

RunConfig config_of(const Run& run) {
  RunConfig c;
  c.batch = std::stoll(run.words[Run::batch]);
  c.mode = run.infers() ? Mode::infer : Mode::train;
  c.scratch = run.words[Run::scratch] == "full" ? Scratch::full : Scratch::no_cudnn;
  c.loop = Loop::function;
  if (run.autocasts()) c.autocast = DType::bf16;
  c.optimizer.kind = run.words[Run::optimizer] == "adam" ? OptimizerKind::adam : OptimizerKind::sgd;
  return c;
}

Report plan_run(const Run& run) {
  const std::string& gpu = run.words[Run::gpu];
  return plan_spec("tests/exported/specs/" + run.words[Run::model], config_of(run), gpu == "a100" ? "a100-80gb" : gpu);
}

}  // namespace

std::vector<std::string> exported_sets(const std::string& root) {
  std::vector<std::string> sets;
  for (const auto& f : fs::directory_iterator(fs::path(root) / "tests/exported"))
    if (f.path().extension() == ".tsv") sets.push_back(f.path().stem());
  std::ranges::sort(sets);
  return sets;
}

Scored score_exported(const std::string& root, const std::string& set) {
  Scored scored;
  Run planned;
  Report report;
  for (const RecordedPhase& p : read_recorded_phases(root + "/tests/exported/" + set + ".tsv", Run::kColumns + 2)) {
    const Run run{{p.words.begin(), p.words.begin() + Run::kColumns}};
    if (run.words != planned.words) report = plan_run(run);
    planned = run;
    score_phase(scored.rows, {.suite = "exported " + set, .run = run.name(), .quantity = ""},
                p.words[Run::kColumns] == "steady", p.words[Run::kColumns + 1], p, report);
  }
  return scored;
}

namespace {

// "padded=0", or "-" where all variables are what they are by default.
std::vector<Variable> variables_of(const std::string& set) {
  const std::size_t at = set.find('=');
  if (at == std::string::npos) return {};
  return {{set.substr(0, at), std::stoll(set.substr(at + 1))}};
}

}  // namespace

Scored score_masks(const std::string& root) {
  Scored scored;
  std::string planned;
  Report report;
  for (const RecordedPhase& p : read_recorded_phases(root + "/tests/exported/masks/h200.tsv", 4)) {
    const std::string& spec = p.words[0];
    const std::string run = spec + " " + p.words[1] + " " + p.words[2];
    RunConfig c;
    c.batch = 8;
    c.mode = p.words[1] == "infer" ? Mode::infer : Mode::train;
    c.loop = Loop::function;
    if (run != planned) report = plan_spec("tests/exported/masks/" + spec, c, "h200", variables_of(p.words[2]));
    planned = run;
    score_phase(scored.rows, {.suite = "masks h200", .run = run, .quantity = ""}, true, p.words[3], p, report);
  }
  return scored;
}

}  // namespace gpuplan
