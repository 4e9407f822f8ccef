// Every recorded figure beside gpuplan's: what PyTorch's tensors did on the CPU (tests/oracle), what its CUDA code
// allocated under a runtime without a GPU (tests/shadow/results, tests/exported) and, where there are any, on a GPU
// (tests/reference).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan {

struct ScoreRow {
  std::string suite;     // "oracle 1.13", "oracle 2.x", "shadow h200.torch2.15.nocudnn"
  std::string run;       // "resnet50 b8 adam"
  std::string quantity;  // "steady.backward.peak.allocated"
  std::int64_t expected = 0;
  std::int64_t got = 0;
};

struct ScoreSummary {
  std::string suite;
  std::int64_t runs = 0, equal_runs = 0;  // equal in every figure
  std::int64_t figures = 0, equal_figures = 0;
  double worst_peak_error = 0;  // relative, of the figures that are peaks
  std::string worst;
  double median_allocated_error = 0, p95_allocated_error = 0, bias_allocated = 0;  // peak allocated, a run
  double median_reserved_error = 0, p95_reserved_error = 0;
};

/// The rows of one suite. `root` is the repository.
std::vector<ScoreRow> score_oracle(const std::string& root, int pytorch);
std::vector<ScoreRow> score_shadow(const std::string& root, const std::string& set);
/// The sets under tests/shadow/results, sorted.
std::vector<std::string> shadow_sets(const std::string& root);

/// The rows of tests/exported/SET.tsv: steps of exported models, by the specs beside it.
std::vector<ScoreRow> score_exported(const std::string& root, const std::string& set);
std::vector<std::string> exported_sets(const std::string& root);

/// A folder of recordings in the form that tools/compare_pytorch.py writes: env.json and models.json. `gpu` is its name
/// in configs/gpus. Throws std::runtime_error, with the file, for what it cannot read.
std::vector<ScoreRow> score_reference(const std::string& root, const std::string& folder, const std::string& gpu);
/// The folders under tests/reference, each named after its GPU, sorted; empty while nothing was recorded on one.
std::vector<std::string> reference_gpus(const std::string& root);

ScoreSummary summarize(const std::string& suite, const std::vector<ScoreRow>& rows);

}  // namespace gpuplan
