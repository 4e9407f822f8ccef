// The scoreboard: of each set of recordings a summary and the figures that differ (all figures with --all), or
// tests/scoreboard/scoreboard.expected written anew (--update).
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/scoreboard/scoreboard_gate.h"

namespace {

using namespace gpuplan;

const std::string kRoot = GPUPLAN_SOURCE_DIR;

void print(const std::string& suite, const std::vector<ScoreRow>& rows, bool all) {
  for (const ScoreRow& r : rows) {
    if (!all && r.expected == r.got) continue;
    const long long difference = static_cast<long long>(r.got - r.expected);
    std::printf("%-28s %-44s %-34s %16lld %16lld %+14lld\n", r.suite.c_str(), r.run.c_str(), r.quantity.c_str(),
                static_cast<long long>(r.expected), static_cast<long long>(r.got), difference);
  }
  const ScoreSummary s = summarize(suite, rows);
  std::printf("# %s: %lld of %lld runs equal in every figure, %lld of %lld figures equal", suite.c_str(),
              static_cast<long long>(s.equal_runs), static_cast<long long>(s.runs),
              static_cast<long long>(s.equal_figures), static_cast<long long>(s.figures));
  if (s.worst_peak_error != 0) std::printf("; worst peak %+.3f %% (%s)", 100 * s.worst_peak_error, s.worst.c_str());
  if (suite.starts_with("shadow") || suite.starts_with("reference"))
    std::printf(
        "\n#   peak allocated: median %.3f %%, 95th percentile %.3f %%, bias %+.3f %%; reserved: median %.3f %%, 95th "
        "%.3f %%",
        100 * s.median_allocated_error, 100 * s.p95_allocated_error, 100 * s.bias_allocated,
        100 * s.median_reserved_error, 100 * s.p95_reserved_error);
  std::printf("\n");
}

int print_all(bool all) {
  std::printf("%-28s %-44s %-34s %16s %16s %14s\n", "suite", "case", "quantity", "expected", "got", "difference");
  for (const ScoreSet& set : score_sets(kRoot)) {
    const Scored scored = set.score();
    print(set.name, scored.rows, all);
    for (const LeftOut& run : scored.left_out)
      std::printf("#   left out %s: %s\n", run.run.c_str(), run.reason.c_str());
  }
  if (reference_gpus(kRoot).empty()) std::printf("# no runs on a real GPU: tests/reference is empty\n");
  return 0;
}

// Keeps the reasons; the old file stays until all is scored.
int update() {
  const std::string path = kRoot + "/tests/scoreboard/scoreboard.expected";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const Gate before = read_gate(text.str());
  Gate now{.sets = {}, .tables = recorded_tables(kRoot)};
  int wanted = 0;
  for (const ScoreSet& set : score_sets(kRoot)) {
    GateSet known;
    for (const GateSet& old : before.sets)
      if (old.name == set.name) known = old;
    now.sets.push_back(with_reasons(gate_of(set, set.score()), known));
    for (const std::string& line : complaints(known, now.sets.back())) std::printf("%s\n", line.c_str());
    for (const GateMiss& miss : now.sets.back().misses) wanted += miss.reason.starts_with("?") ? 1 : 0;
  }
  std::ofstream(path) << write_gate(now);
  std::printf("%s is written; %d runs in it want a reason\n", path.c_str(), wanted);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string action = argc > 1 ? argv[1] : "";
  if (action == "--update") return update();
  if (action.empty() || action == "--all") return print_all(!action.empty());
  std::fprintf(stderr, "gpuplan_scoreboard [--all | --update]\n");
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpuplan_scoreboard: %s\n", e.what());
  return 3;
}
