// Every recorded figure against gpuplan's. The bounds are what has been reached; a figure that gets worse fails.
#include <doctest/doctest.h>

#include <cmath>

#include "estimator/run_config.h"
#include "tests/scoreboard.h"

namespace gpuplan {
namespace {

const std::string kRoot = GPUPLAN_SOURCE_DIR;

void report_misses(const std::vector<ScoreRow>& rows) {
  int shown = 0;
  for (const ScoreRow& r : rows)
    if (r.expected != r.got && ++shown <= 20)
      MESSAGE(r.suite, " ", r.run, " ", r.quantity, ": expected ", r.expected, ", got ", r.got);
}

}  // namespace

TEST_CASE("tensors, lifetimes and FLOPs equal PyTorch 1.13's") {
  const auto rows = score_oracle(kRoot, 113);
  CHECK(rows.size() > 1000);
  const ScoreSummary s = summarize("oracle 1.13", rows);
  if (s.equal_figures != s.figures) report_misses(rows);
  CHECK(s.equal_figures == s.figures);
}

TEST_CASE("sizes, saved bytes and phase borders equal PyTorch 2.x's") {
  const auto rows = score_oracle(kRoot, kNewestPyTorch);
  CHECK(rows.size() > 300);
  const ScoreSummary s = summarize("oracle 2.x", rows);
  if (s.equal_figures != s.figures) report_misses(rows);
  CHECK(s.equal_figures == s.figures);
}

TEST_CASE("without cuDNN's workspaces, phases equal PyTorch's CUDA code") {
  for (const std::string& set : shadow_sets(kRoot)) {
    if (set.find("nocudnn") == std::string::npos) continue;
    CAPTURE(set);
    const auto rows = score_shadow(kRoot, set);
    const ScoreSummary s = summarize(set, rows);
    if (s.equal_figures != s.figures) report_misses(rows);
    CHECK(static_cast<double>(s.equal_runs) >= 0.9 * static_cast<double>(s.runs));
    CHECK(std::abs(s.worst_peak_error) <= 0.005);
  }
}

TEST_CASE("with cuDNN's workspaces, allocated peaks are near those of PyTorch's CUDA code") {
  for (const std::string& set : shadow_sets(kRoot)) {
    if (set.find("nocudnn") != std::string::npos) continue;
    CAPTURE(set);
    const auto rows = score_shadow(kRoot, set);
    CHECK(summarize(set, rows).median_allocated_error <= 0.005);
    for (const ScoreRow& r : rows) {
      if (r.quantity != "steady.peak.allocated") continue;
      CAPTURE(r.run);
      CHECK(std::abs(static_cast<double>(r.got - r.expected)) <= 0.04 * static_cast<double>(r.expected));
    }
  }
}

TEST_CASE("recordings of tools/compare_pytorch.py are replayed") {
  // Made under gpuplan shadow, where PyTorch's memory is real and nothing computes.
  const auto rows = score_reference(kRoot, "tests/shadow/compare_pytorch/h200", "h200");
  const ScoreSummary s = summarize("recorded under gpuplan shadow", rows);
  CHECK(s.runs == 3);
  CHECK(s.figures == 3 * 7);
  if (s.equal_figures != s.figures) report_misses(rows);
  CHECK(s.equal_figures == s.figures);
}

TEST_CASE("what was recorded on a GPU can be replayed") {
  for (const std::string& gpu : reference_gpus(kRoot)) {
    CAPTURE(gpu);
    const auto rows = score_reference(kRoot, "tests/reference/" + gpu, gpu);
    CHECK(!rows.empty());
    report_misses(rows);
  }
}

}  // namespace gpuplan
