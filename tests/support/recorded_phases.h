// Tables of recorded phases, and the rows of a plan that they are compared with.
#pragma once

#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "tests/scoreboard/scoreboard.h"

namespace gpuplan {

struct RecordedPhase {
  std::vector<std::string> words;  // the run's, then what a table says of the phase
  Reading live, peak;              // when the phase ends, and the highest within it
};

/// Lines of `words` words and six numbers, with tabs or one blank between them: the requested, allocated and reserved
/// bytes of both readings. '#' begins a comment, the first other line names the columns. Throws std::runtime_error for
/// a file that is not there or has no phase, and for a line of other columns.
std::vector<RecordedPhase> read_recorded_phases(const std::string& path, std::size_t words);

/// The plan's row of a phase, "forward". Throws std::runtime_error where it has none.
const PhaseRow& planned_phase(const Report& report, bool steady, const std::string& phase);

/// `row` with the quantity "QUANTITY.requested", and so on, for each of the three figures.
void score_reading(std::vector<ScoreRow>& rows, ScoreRow row, const Reading& recorded, const Reading& planned);

/// Both readings of a phase; that of "start" only live: its peak belongs to the step before, or to the construction.
void score_phase(std::vector<ScoreRow>& rows, ScoreRow row, bool steady, const std::string& phase,
                 const RecordedPhase& recorded, const Report& report);

}  // namespace gpuplan
