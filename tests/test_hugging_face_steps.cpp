// Small models of every class of transformers that a config.json is imported as, with the heads, norms, masks and
// positions that the zoo's models do not have: every figure of their third step against PyTorch's CUDA code
// (tests/recorders/hugging_face_steps.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "estimator/device/read_gpu.h"
#include "estimator/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tests/readings.h"
#include "tools/importers/hugging_face.h"
#include "tools/read_source.h"

namespace gpuplan {
namespace {

const std::string kFolder = std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface/steps/";

struct RecordedPhase {
  std::string name;
  Reading live, peak;
};

// Of each run, "model mode": its phases.
std::map<std::string, std::vector<RecordedPhase>> recorded() {
  std::ifstream in(kFolder + "h200.tsv");
  std::map<std::string, std::vector<RecordedPhase>> runs;
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("#") || line.starts_with("model\t")) continue;
    std::istringstream fields(line);
    std::string model, mode;
    RecordedPhase phase;
    fields >> model >> mode >> phase.name;
    for (Reading* reading : {&phase.live, &phase.peak})
      fields >> reading->requested_bytes >> reading->allocated_bytes >> reading->reserved_bytes;
    REQUIRE(fields);
    runs[model + " " + mode].push_back(phase);
  }
  return runs;
}

Report planned(const std::string& model, bool infers) {
  RunConfig run;
  run.batch = 4;
  run.mode = infers ? Mode::infer : Mode::train;
  run.loop = Loop::function;
  SpecOptions options;
  const std::shared_ptr<const Source> config = read_file_source(kFolder + model + ".json");
  if (config->text.find("\"_attn_implementation\": \"eager\"") != std::string::npos) run.attention = Attention::eager;
  const std::shared_ptr<const Source> spec = hugging_face_spec(*config);
  if (spec->text.find("\n  seq: ") != std::string::npos) options.set.push_back({"seq", 64});
  if (spec->text.find("\n  target: ") != std::string::npos) options.set.push_back({"target", 32});
  static const Gpu h200 = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml"));
  return plan(read_model(spec, options), make_catalog(), run, &h200);
}

}  // namespace

TEST_CASE("imported classes plan to what PyTorch's CUDA code allocates") {
  const auto runs = recorded();
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) files += file.path().extension() == ".json";
  CHECK_EQ(runs.size(), 2 * files);
  for (const auto& run : runs) {
    INFO(run.first);
    const std::size_t space = run.first.find(' ');
    const Report report = planned(run.first.substr(0, space), run.first.ends_with("infer"));
    for (const RecordedPhase& phase : run.second) {
      INFO(phase.name);
      const auto row = std::ranges::find_if(
          report.phases, [&](const PhaseRow& r) { return r.steady && name_of(r.phase) == phase.name; });
      REQUIRE(row != report.phases.end());
      check_equal(row->live, phase.live);
      if (phase.name != "start") check_equal(row->peak, phase.peak);  // that belongs to the step before
    }
  }
}

}  // namespace gpuplan
