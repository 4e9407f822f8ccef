// Rows and columns of text, aligned by what a terminal shows.
#pragma once

#include <string>
#include <vector>

namespace gpuplan {

class TextTable {
 public:
  enum class Align : unsigned char { left, right };

  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}
  /// One cell a column; fewer leave the rest empty.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every row on a line of its own behind `indent`, columns two spaces apart, no spaces at line ends.
  std::string text(const std::string& indent = "  ") const;
  /// GitHub-flavoured Markdown; the first row is the heading. Pipes in cells are escaped.
  std::string markdown() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

inline constexpr auto kLeft = TextTable::Align::left, kRight = TextTable::Align::right;

/// Lines of at most `width` columns behind `indent`, broken at spaces, each with its line end.
std::string wrapped(const std::string& text, const std::string& indent, std::size_t width);

}  // namespace gpuplan
