// The points of a sweep as tables and lines.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/report/text_style.h"
#include "estimator/search/sweep_row.h"

namespace gpuplan {

/// A row a point; `names` are those of the swept flags.
std::string sweep_text(std::span<const std::string> names, std::span<const SweepRow> rows, const TextStyle& style);
std::string sweep_md(std::span<const std::string> names, std::span<const SweepRow> rows);
/// gpuplan.sweep/1: an object a line, of one point (sweep_json_schema). `points`: how many the whole sweep has, of
/// which these may be a part. `search`: of which they are one.
std::string sweep_json_lines(std::span<const std::string> names, std::span<const SweepRow> rows, std::int64_t points,
                             const std::optional<AskedSearch>& search = std::nullopt);
std::string sweep_json_schema();
/// RFC 4180; bytes as integers, empty where there is no figure.
std::string sweep_csv_heading(std::span<const std::string> names);
std::string sweep_csv_lines(std::span<const SweepRow> rows);

}  // namespace gpuplan
