// Models that the zoo does not have, as gpuplan_export.py writes them: every figure of their plans against PyTorch's
// CUDA code (tests/torch/export_record.py). The bounds are what has been reached.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "tests/scoreboard.h"

namespace gpuplan {
namespace {

const std::string kRoot = GPUPLAN_SOURCE_DIR;

/// What each run that is not to the byte is off by at most, and how many of its figures.
void tell_misses(const std::vector<ScoreRow>& rows) {
  struct Miss {
    int figures = 0;
    double worst = 0;
    std::string quantity;
  };
  std::map<std::string, Miss> misses;
  for (const ScoreRow& r : rows) {
    if (r.expected == r.got) continue;
    Miss& miss = misses[r.run];
    ++miss.figures;
    const double error = std::abs(static_cast<double>(r.got - r.expected)) / static_cast<double>(r.expected);
    if (error >= miss.worst) miss = {miss.figures, error, r.quantity};
  }
  for (const auto& [run, miss] : misses)
    MESSAGE(rows.front().suite, " ", run, ": ", miss.figures, " figures differ, ", miss.quantity, " by ",
            100 * miss.worst, " %");
}

std::size_t models_of(const std::vector<ScoreRow>& rows) {
  std::set<std::string> models;
  for (const ScoreRow& r : rows) models.insert(r.run.substr(0, r.run.find(' ')));
  return models.size();
}

}  // namespace

TEST_CASE("exported models plan to what PyTorch's CUDA code allocates") {
  for (const std::string& set : exported_sets(kRoot)) {
    CAPTURE(set);
    const auto rows = score_exported(kRoot, set);
    const ScoreSummary s = summarize("exported " + set, rows);
    tell_misses(rows);
    CHECK(models_of(rows) >= 40);
    CHECK(static_cast<double>(s.equal_runs) >= 0.8 * static_cast<double>(s.runs));
    CHECK(std::abs(s.worst_peak_error) <= 0.01);
  }
}

}  // namespace gpuplan
