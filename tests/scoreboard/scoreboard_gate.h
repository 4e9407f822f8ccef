// tests/scoreboard/scoreboard.expected: of each set of recordings how many runs are equal in every figure, and by what
// each other run differs; and of tables that other tests hold to the byte how long they are. It is generated
// (tools/scoreboard
// --update) and reviewed; the tests fail where a score is another.
#pragma once

#include <string>
#include <vector>

#include "tests/scoreboard/scoreboard.h"

namespace gpuplan {

/// A run with figures that differ.
struct GateMiss {
  std::string run;
  std::int64_t differing = 0, figures = 0;
  std::int64_t bytes = 0;     // by how much, all figures together; MACs and elements count as bytes
  std::string worst;          // the figure that is off by most, relative to what was recorded
  std::int64_t expected = 0;  // its recording
  std::int64_t got = 0;       // and its plan
  std::string reason;         // "?..." where nobody has given it yet
};

struct GateSet {
  std::string name, title;
  std::int64_t runs = 0, equal_runs = 0;
  std::int64_t figures = 0, equal_figures = 0;
  std::vector<GateMiss> misses;  // in the order of the recordings
  std::vector<LeftOut> left_out;
};

struct Gate {
  std::vector<GateSet> sets;
  std::vector<RecordedTable> tables;
};

GateSet gate_of(const ScoreSet& set, const Scored& scored);

/// Throws std::runtime_error with the number of a line that it cannot read.
Gate read_gate(const std::string& text);
std::string write_gate(const Gate& gate);

/// `now` with the reasons of `before`; a run that is new or further off than before has one that begins with "?".
GateSet with_reasons(GateSet now, const GateSet& before);

/// Lines of a difference, "- " what the file has and "+ " what there is now, and the runs without a reason; none where
/// all is as it was.
std::vector<std::string> complaints(const GateSet& expected, const GateSet& now);

}  // namespace gpuplan
