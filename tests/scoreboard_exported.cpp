// Steps of models that tools/gpuplan_export.py exported, recorded by tests/torch/export_record.py, beside the plans of
// the specs that it wrote.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/scoreboard.h"
#include "tests/zoo_models.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRunColumns = 6;  // model, gpu, scratch, mode, optimizer, batch

struct Run {
  std::array<std::string, kRunColumns> columns;
  std::string model() const { return columns[0]; }
  std::string gpu() const { return columns[1]; }
  bool infers() const { return columns[3] == "infer"; }
  bool autocasts() const { return columns[3] == "train-bf16"; }
  std::string name() const {
    return model() + " b" + columns[5] + " " + (infers() ? columns[3] : columns[4]) + (autocasts() ? " bf16" : "");
  }
};

struct PhaseFigures {
  bool steady = false;
  std::string phase;
  Reading live, peak;
};

RunConfig config_of(const Run& run) {
  RunConfig c;
  c.batch = std::stoll(run.columns[5]);
  c.mode = run.infers() ? Mode::infer : Mode::train;
  c.scratch = run.columns[2] == "full" ? Scratch::full : Scratch::no_cudnn;
  c.loop = Loop::function;
  if (run.autocasts()) c.autocast = DType::bf16;
  c.optimizer.kind = run.columns[4] == "adam" ? OptimizerKind::adam : OptimizerKind::sgd;
  return c;
}

PhaseFigures read_figures(std::istringstream& fields) {
  PhaseFigures f;
  std::string step;
  fields >> step >> f.phase;
  for (Reading* reading : {&f.live, &f.peak})
    fields >> reading->requested_bytes >> reading->allocated_bytes >> reading->reserved_bytes;
  f.steady = step == "steady";
  return f;
}

class Plans {
 public:
  explicit Plans(std::string folder) : folder_(std::move(folder)) {}
  Report plan(const Run& run) const {
    return plan_spec(folder_ + "/specs/" + run.model(), config_of(run), run.gpu() == "a100" ? "a100-80gb" : run.gpu());
  }

 private:
  std::string folder_;
};

void add_reading(std::vector<ScoreRow>& rows, const ScoreRow& row, const std::string& what, const Reading& expected,
                 const Reading& got) {
  const auto add = [&](const char* figure, std::int64_t recorded, std::int64_t planned) {
    rows.push_back({row.suite, row.run, row.quantity + what + figure, recorded, planned});
  };
  add(".requested", expected.requested_bytes, got.requested_bytes);
  add(".allocated", expected.allocated_bytes, got.allocated_bytes);
  add(".reserved", expected.reserved_bytes, got.reserved_bytes);
}

void score(std::vector<ScoreRow>& rows, ScoreRow row, const PhaseFigures& recorded, const Report& report) {
  for (const PhaseRow& planned : report.phases) {
    if (planned.steady != recorded.steady || name_of(planned.phase) != recorded.phase) continue;
    row.quantity = (recorded.steady ? "steady." : "first.") + recorded.phase;
    add_reading(rows, row, ".live", recorded.live, planned.live);
    // The peak until zero_grad is done belongs to the step before, or to the model's construction.
    if (recorded.phase != "start") add_reading(rows, row, ".peak", recorded.peak, planned.peak);
    return;
  }
  throw std::runtime_error(row.run + ": the plan has no phase " + recorded.phase);
}

}  // namespace

std::vector<std::string> exported_sets(const std::string& root) {
  std::vector<std::string> sets;
  for (const auto& f : fs::directory_iterator(fs::path(root) / "tests/exported"))
    if (f.path().extension() == ".tsv") sets.push_back(f.path().stem());
  std::ranges::sort(sets);
  return sets;
}

std::vector<ScoreRow> score_exported(const std::string& root, const std::string& set) {
  std::ifstream in(fs::path(root) / "tests/exported" / (set + ".tsv"));
  if (!in) throw std::runtime_error("there is no tests/exported/" + set + ".tsv");
  const Plans plans("tests/exported");
  std::vector<ScoreRow> rows;
  Run planned;
  Report report;
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    Run run;
    for (std::string& column : run.columns) fields >> column;
    const PhaseFigures recorded = read_figures(fields);
    if (!fields) throw std::runtime_error("tests/exported/" + set + ".tsv: a line of other columns: " + line);
    if (run.columns != planned.columns) report = plans.plan(run);
    planned = run;
    score(rows, {.suite = "exported " + set, .run = run.name(), .quantity = ""}, recorded, report);
  }
  return rows;
}

}  // namespace gpuplan
