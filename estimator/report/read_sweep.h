// The JSON lines of a sweep, or of a part of a search, read again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/search/sweep_row.h"

namespace gpuplan {

struct SweepLines {
  std::vector<std::string> names;     // of the swept flags
  std::vector<SweepRow> rows;         // by their points
  std::vector<std::string> places;    // of each row: "part-3.json: line 2"
  std::int64_t points = 0;            // of the whole
  std::optional<AskedSearch> search;  // where they are parts
};

/// What sweep_json_lines() wrote, of several files together. Throws Error, with the file and the line: one that is no
/// line of gpuplan.sweep/1, or has neither figures nor an error. Throws Error for files of other searches, a point that
/// two files have, and points that none of them has.
SweepLines read_sweep_lines(std::span<const Source> parts);

}  // namespace gpuplan
