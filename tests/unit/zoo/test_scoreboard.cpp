// Every recorded figure against gpuplan's: what differs is what tests/scoreboard/scoreboard.expected says, no more and
// no less.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/scoreboard/scoreboard_files.h"

namespace gpuplan {

namespace {

const std::string kRoot = GPUPLAN_SOURCE_DIR;

template <class Lines>
std::string all_lines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Three runs of two figures; the last figure differs by 8 B of 1000.
Scored scored_runs() {
  Scored s;
  for (const char* run : {"mlp b8.sgd", "mlp b8.adam", "mlp b8.adamw"})
    for (const char* figure : {"steady.peak.allocated", "steady.peak.reserved"})
      s.rows.push_back({"set", run, figure, 1000, 1000});
  s.rows.back().got = 1008;
  s.left_out = {{"mlp b9.sgd", "OutOfMemoryError: CUDA out of memory"}};
  return s;
}

const ScoreSet kSet{"set", "what PyTorch does", {}};

// As the file has it, with a reason.
GateSet kept() {
  GateSet set = gate_of(kSet, scored_runs());
  set.misses.front().reason = "segments of 20 MiB";
  return set;
}

std::vector<std::string> complaints_about(const Scored& scored) { return complaints(kept(), gate_of(kSet, scored)); }

}  // namespace

Gate expected_gate() {
  std::ifstream in(kRoot + "/tests/scoreboard/scoreboard.expected");
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return read_gate(text.str());
}

void check_set(const std::string& name) {
  const std::vector<GateSet> expected = expected_gate().sets;
  const auto before = std::ranges::find(expected, name, &GateSet::name);
  REQUIRE(before != expected.end());
  const std::vector<ScoreSet> sets = score_sets(kRoot);
  const auto set = std::ranges::find(sets, name, &ScoreSet::name);
  REQUIRE_MESSAGE(set != sets.end(), name << " is in tests/scoreboard/scoreboard.expected and has no recordings");
  const std::string different = all_lines(complaints(*before, gate_of(*set, set->score())));
  CHECK_MESSAGE(different.empty(), "the recorded runs are not as tests/scoreboard/scoreboard.expected says:\n"
                                       << different << "tools/scoreboard --update writes the file anew");
}

TEST_CASE("the scoreboard has every set of recordings, each with its runs") {
  std::set<std::string> in_file, there;
  for (const GateSet& set : expected_gate().sets) {
    CAPTURE(set.name);
    CHECK(in_file.insert(set.name).second);
    CHECK(set.runs > 0);
  }
  for (const ScoreSet& set : score_sets(kRoot)) there.insert(set.name);
  CHECK(all_lines(in_file) == all_lines(there));  // tools/scoreboard --update
}

// Such recordings are sets like the others; this tells where there are none.
TEST_CASE("runs on a real GPU are recorded" * doctest::skip(reference_gpus(GPUPLAN_SOURCE_DIR).empty()) *
          doctest::description("tests/reference is empty; tests/recorders/compare_pytorch.py records there")) {
  CHECK(!reference_gpus(kRoot).empty());
}

TEST_CASE("the tables that other tests hold are as long as the scoreboard says") {
  const std::vector<RecordedTable> tables = recorded_tables(kRoot);
  CHECK(!tables.empty());
  CHECK(tables == expected_gate().tables);  // tools/scoreboard --update
}

TEST_CASE("a scoreboard that is written reads back the same") {
  GateSet other = kept();
  other.name = "shadow h200";
  const std::string text = write_gate({{kept(), other}, {{"tests/shadow/attention.tsv", 12}}});
  const Gate gate = read_gate(text);
  REQUIRE(gate.sets.size() == 2);
  CHECK(gate.tables == std::vector<RecordedTable>{{"tests/shadow/attention.tsv", 12}});
  CHECK(complaints(gate.sets[0], gate_of(kSet, scored_runs())).empty());
  CHECK(write_gate(gate) == text);
  CHECK(text.find("\nset: 3 runs, 2 equal; 6 figures, 5 equal\n"
                  "  of what PyTorch does\n"
                  "  left out mlp b9.sgd: OutOfMemoryError: CUDA out of memory\n"
                  "  mlp b8.adamw: 1 of 2 figures by 8 B; steady.peak.reserved +0.800 %, 1008 for 1000\n"
                  "    segments of 20 MiB\n") != std::string::npos);
  CHECK_THROWS_AS(read_gate("what is this\n"), std::runtime_error);
}

TEST_CASE("a figure that differs more than the scoreboard says fails, wherever it is") {
  for (std::size_t i = 0; i < 6; ++i) {
    Scored worse = scored_runs();
    worse.rows[i].got += 1;
    CHECK(!complaints_about(worse).empty());
  }
  Scored better = scored_runs();
  better.rows.back().got -= 4;  // the file has to say so, or it could get worse again
  CHECK(!complaints_about(better).empty());
  CHECK(complaints_about(scored_runs()).empty());
}

TEST_CASE("a recording, a figure or a set that disappears fails, and one more is missed in the scoreboard") {
  Scored scored = scored_runs();
  scored.rows.erase(scored.rows.begin(), scored.rows.begin() + 2);
  CHECK(complaints_about(scored).front() == "- set: 3 runs, 2 equal; 6 figures, 5 equal");
  scored = scored_runs();
  scored.rows.erase(scored.rows.begin());
  CHECK(complaints_about(scored).front() == "- set: 3 runs, 2 equal; 6 figures, 5 equal");
  scored = scored_runs();
  scored.rows.push_back({"set", "mlp b8.nadam", "saved", 1, 1});
  CHECK(!complaints_about(scored).empty());
  scored = scored_runs();
  scored.left_out.clear();
  CHECK(!complaints_about(scored).empty());
  CHECK(complaints(GateSet{.name = "set", .title = "what PyTorch does", .misses = {}, .left_out = {}},
                   gate_of(kSet, {})) == std::vector<std::string>{"set has no recording in it"});
}

TEST_CASE("the reason of a run is kept while it is no further off, and wanted where it is") {
  const auto reason = [](std::int64_t got) {
    Scored scored = scored_runs();
    scored.rows.back().got = got;
    const GateSet now = with_reasons(gate_of(kSet, scored), kept());
    const bool accepted = complaints(now, gate_of(kSet, scored)).empty();
    CHECK(accepted == !now.misses.front().reason.starts_with("?"));
    return now.misses.front().reason;
  };
  CHECK(reason(1008) == "segments of 20 MiB");
  CHECK(reason(1004) == "segments of 20 MiB");
  CHECK(reason(1009) == "? it was: segments of 20 MiB");
  CHECK(reason(900) == "? it was: segments of 20 MiB");
  Scored scored = scored_runs();
  scored.rows.front().got = 999;
  CHECK(with_reasons(gate_of(kSet, scored), kept()).misses.front().reason == "?");
}

}  // namespace gpuplan
