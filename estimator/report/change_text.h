// Differences as people read them: always with a sign, percent of the base.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimator/compare/differences.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// "9.52 GiB", "124,439,808", "7.04 TFLOP", "36.2 ms".
std::string amount_text(Metric metric, std::int64_t amount, const TextStyle& style);
/// "+4.07 GiB", "-393,216", "±0".
std::string delta_text(Metric metric, std::int64_t delta, const TextStyle& style);
/// "+42.7 %", "-100.0 %", "0.0 %"; "+0.0 %" where the change is small; "new" from 0 to something.
std::string percent_text(const Change& change);
/// "+4.07 GiB (+42.7 %)", "±0".
std::string change_text(Metric metric, const Change& change, const TextStyle& style);

/// "peak", "step FLOP": a metric in a table.
std::string label_of(Metric metric);
/// A category's name for people: "optimizer state".
std::string category_words(const std::string& category);

/// The largest of many changes, and the others as one, "[3 others]". At most `most` in all.
std::vector<Change> largest_of(const std::vector<Change>& changes, std::size_t most);

/// Differences in bytes in one unit, rounded so that the rows sum to the total as they are printed.
struct ByteColumn {
  std::string unit;               // "MiB", "bytes"
  std::vector<std::string> rows;  // "+2500.0"
  std::string total;
};
ByteColumn byte_column(const std::vector<Change>& changes, const Change& total, const TextStyle& style);

/// Each value / unit in tenths, rounded so that what is printed sums to the printed total (largest remainder). Values
/// may be of both signs.
std::vector<std::int64_t> signed_tenths_that_sum(std::span<const std::int64_t> values, std::int64_t unit);
/// "+5573.8", "-0.3", "0.0" from tenths; of a change that was rounded to 0 "+0.0" or "-0.0".
std::string signed_tenths(std::int64_t tenths, std::int64_t change);

}  // namespace gpuplan
