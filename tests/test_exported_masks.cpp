// Hugging Face's models with an attention_mask, as gpuplan_export.py writes them: every figure of their third step
// against PyTorch's CUDA code (tests/torch/export_hf.py --mask --record), with padding in the batch and without.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "estimator/graph/build.h"
#include "tests/lower_calls.h"
#include "tests/readings.h"
#include "tests/test_spec.h"
#include "tests/zoo_models.h"

namespace gpuplan {
namespace {

using testing::contains;
using testing::read_spec;

struct RecordedPhase {
  std::string name;
  Reading live, peak;
};

// Of each run, "spec mode padded": its phases.
std::map<std::string, std::vector<RecordedPhase>> recorded() {
  std::ifstream in(std::string(GPUPLAN_SOURCE_DIR) + "/tests/exported/masks/h200.tsv");
  std::map<std::string, std::vector<RecordedPhase>> runs;
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string spec, mode, padded;
    RecordedPhase phase;
    fields >> spec >> mode >> padded >> phase.name;
    for (Reading* reading : {&phase.live, &phase.peak})
      fields >> reading->requested_bytes >> reading->allocated_bytes >> reading->reserved_bytes;
    REQUIRE(fields);
    runs[spec + " " + mode + " " + padded].push_back(phase);
  }
  return runs;
}

Report planned(const std::string& run) {
  std::istringstream words(run);
  std::string spec, mode;
  std::int64_t padded = 0;
  words >> spec >> mode >> padded;
  RunConfig c;
  c.batch = 8;
  c.mode = mode == "infer" ? Mode::infer : Mode::train;
  c.loop = Loop::function;
  return plan_spec("tests/exported/masks/" + spec, c, "h200", {{"padded", padded}});
}

}  // namespace

TEST_CASE("an attention_mask plans to what PyTorch's CUDA code allocates, with and without padding") {
  const auto runs = recorded();
  REQUIRE_EQ(runs.size(), 22);
  for (const auto& run : runs) {
    INFO(run.first);
    const Report report = planned(run.first);
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

// aten/src/ATen/native/transformers/attention.cpp: scaled_dot_product_attention converts a boolean mask
// [batch, 1, tokens, tokens] to the queries' type, in each call for itself, and the kernel saves the result.
TEST_CASE("each layer saves a mask of its own where there is padding") {
  const auto saved = [](const char* run) { return planned(run).bytes.saved_for_backward; };
  constexpr std::int64_t kLayers = 3, kBatch = 8, kTokens = 64, kFloat = 4;
  CHECK_EQ(saved("small-bert train 1") - saved("small-bert train 0"), kLayers * kBatch * kTokens * kTokens * kFloat);
}

TEST_CASE("an attention_mask that does not go with the embeddings is refused") {
  const auto refusal = [](const std::string& mask) {
    try {
      RunConfig run;
      run.batch = 4;
      (void)build_graph(read_spec("gpuplan: 1\ninputs:\n  x: {shape: [16, 8]}\n  mask: {shape: " + mask +
                                  ", dtype: int64}\nlayers:\n  - {name: m, op: \"AttentionMask()\", from: [x, mask]}\n "
                                  " - {op: Identity(), from: x}\n"),
                        make_catalog(), run, assumed_gpu());
      return std::string();
    } catch (const Error& error) {
      return error.render();
    }
  };
  CHECK_EQ(refusal("[16]"), "");
  CHECK_EQ(refusal("[20]"), "");  // keys that queries of another length attend to
  CHECK(contains(refusal("[16, 1]"),
                 "expects embeddings [batch, tokens, ...] and an attention_mask [batch, tokens], got"));
}

}  // namespace gpuplan
