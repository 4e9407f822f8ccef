#include "tests/support/recorded_phases.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace gpuplan {

std::vector<RecordedPhase> read_recorded_phases(const std::string& path, std::size_t words) {
  std::ifstream in(path);
  std::vector<RecordedPhase> phases;
  bool heading = true;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#") || std::exchange(heading, false)) continue;
    std::istringstream fields(line);
    RecordedPhase phase;
    phase.words.resize(words);
    const char between =
        line.find('\t') == std::string::npos ? ' ' : '\t';  // words may be of several, as a run's flags
    for (std::string& word : phase.words) std::getline(fields, word, between);
    for (Reading* reading : {&phase.live, &phase.peak})
      fields >> reading->requested_bytes >> reading->allocated_bytes >> reading->reserved_bytes;
    if (!fields) throw std::runtime_error(path + ": a line of other columns: " + line);
    phases.push_back(std::move(phase));
  }
  if (phases.empty()) throw std::runtime_error(path + " has no recorded phase");
  return phases;
}

const PhaseRow& planned_phase(const Report& report, bool steady, const std::string& phase) {
  const auto found = std::ranges::find_if(
      report.phases, [&](const PhaseRow& row) { return row.steady == steady && name_of(row.phase) == phase; });
  if (found == report.phases.end()) throw std::runtime_error("the plan has no phase " + phase);
  return *found;
}

void score_reading(std::vector<ScoreRow>& rows, ScoreRow row, const Reading& recorded, const Reading& planned) {
  const std::string quantity = row.quantity;
  const auto add = [&](const char* figure, std::int64_t expected, std::int64_t got) {
    rows.push_back({row.suite, row.run, quantity + figure, expected, got});
  };
  add(".requested", recorded.requested_bytes, planned.requested_bytes);
  add(".allocated", recorded.allocated_bytes, planned.allocated_bytes);
  add(".reserved", recorded.reserved_bytes, planned.reserved_bytes);
}

void score_phase(std::vector<ScoreRow>& rows, ScoreRow row, bool steady, const std::string& phase,
                 const RecordedPhase& recorded, const Report& report) {
  const PhaseRow& planned = planned_phase(report, steady, phase);
  const std::string step = (steady ? "steady." : "first.") + phase;
  row.quantity = step + ".live";
  score_reading(rows, row, recorded.live, planned.live);
  row.quantity = step + ".peak";
  if (phase == "start") return;
  score_reading(rows, row, recorded.peak, planned.peak);
  if (!steady || !report.at_most) return;
  rows[rows.size() - 2].at_most = report.at_most->allocated_bytes;
  rows.back().at_most = report.at_most->reserved_bytes;
}

}  // namespace gpuplan
