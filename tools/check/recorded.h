// Models of checks that are recordings: saved plans, reports of gpuplan shadow and learned traces. They have figures
// and no layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/budget/judge.h"
#include "estimator/search/figures.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// Whether a file's text is one, by its beginning.
bool is_recorded(std::string_view start);
/// Whether the file that a check names is one.
bool is_recorded_file(const std::string& path);

/// What is known of steps that were recorded or learned.
Measured measured_of(const SweepFigures& trace);
struct Recorded {
  Measured measured;
  std::vector<std::string> warnings;  // why they may be off
};
/// Its figures. A learned trace is planned at the values that `run` gives; a saved plan or report is of one run, so
/// that flags are refused. Throws Error.
Recorded recorded_figures(const Source& source, const RunOptions& run);
/// The text of the file `path`, called `name`. Throws Error.
Source read_recorded(const std::string& path, const std::string& name);

}  // namespace gpuplan
