// Comma-separated values as RFC 4180 writes them: quoted fields may hold commas, line ends and "" for a quote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

/// A field as a file has it: one with a comma, quote or line end in quotes, quotes doubled. A leading sign of a formula
/// is kept as it is: names come from the user's own file.
std::string csv_field(const std::string& text);

struct CsvField {
  std::string text;
  SourceMark mark;
};

class CsvTable {
 public:
  /// The first line names the columns. Throws Error, with the place, for rows of other lengths, columns named twice, a
  /// quote that does not end, control characters, more than 64 MiB.
  explicit CsvTable(const Source& source);

  std::size_t rows() const { return rows_.size(); }
  bool has(std::string_view column) const { return index_of(column) < columns_.size(); }
  /// The field of a row; one without text where the table has no such column.
  const CsvField& at(std::size_t row, std::string_view column) const;
  const std::vector<CsvField>& columns() const { return columns_; }

 private:
  std::size_t index_of(std::string_view column) const;

  std::vector<CsvField> columns_;
  std::vector<std::vector<CsvField>> rows_;
  CsvField none_;
};

}  // namespace gpuplan
