// Prints the scoreboard: a summary a suite, and the figures that differ (all figures with --all).
#include <cstdio>
#include <cstring>
#include <string>

#include "estimator/run_config.h"
#include "tests/scoreboard.h"

namespace {

using gpuplan::ScoreRow;

void print(const std::string& suite, const std::vector<ScoreRow>& rows, bool all) {
  for (const ScoreRow& r : rows) {
    if (!all && r.expected == r.got) continue;
    const long long difference = static_cast<long long>(r.got - r.expected);
    std::printf("%-28s %-44s %-34s %16lld %16lld %+14lld\n", r.suite.c_str(), r.run.c_str(), r.quantity.c_str(),
                static_cast<long long>(r.expected), static_cast<long long>(r.got), difference);
  }
  const gpuplan::ScoreSummary s = gpuplan::summarize(suite, rows);
  std::printf("# %s: %lld of %lld runs equal in every figure, %lld of %lld figures equal", suite.c_str(),
              static_cast<long long>(s.equal_runs), static_cast<long long>(s.runs),
              static_cast<long long>(s.equal_figures), static_cast<long long>(s.figures));
  if (s.worst_peak_error != 0) std::printf("; worst peak %+.3f %% (%s)", 100 * s.worst_peak_error, s.worst.c_str());
  if (suite.starts_with("shadow") || suite.starts_with("exported") || suite.starts_with("reference"))
    std::printf(
        "\n#   peak allocated: median %.3f %%, 95th percentile %.3f %%, bias %+.3f %%; reserved: median %.3f %%, 95th "
        "%.3f %%",
        100 * s.median_allocated_error, 100 * s.p95_allocated_error, 100 * s.bias_allocated,
        100 * s.median_reserved_error, 100 * s.p95_reserved_error);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool all = argc > 1 && std::strcmp(argv[1], "--all") == 0;
  const std::string root = GPUPLAN_SOURCE_DIR;
  std::printf("%-28s %-44s %-34s %16s %16s %14s\n", "suite", "case", "quantity", "expected", "got", "difference");
  print("oracle 1.13", gpuplan::score_oracle(root, 113), all);
  print("oracle 2.x", gpuplan::score_oracle(root, gpuplan::kNewestPyTorch), all);
  for (const std::string& set : gpuplan::shadow_sets(root))
    print("shadow " + set, gpuplan::score_shadow(root, set), all);
  for (const std::string& set : gpuplan::exported_sets(root))
    print("exported " + set, gpuplan::score_exported(root, set), all);
  for (const std::string& gpu : gpuplan::reference_gpus(root))
    print("reference " + gpu, gpuplan::score_reference(root, "tests/reference/" + gpu, gpu), all);
  return 0;
}
