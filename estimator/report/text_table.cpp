#include "estimator/report/text_table.h"

#include <algorithm>

#include "estimator/base/format.h"

namespace gpuplan {

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& cells : rows_)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
  std::string out;
  for (const auto& cells : rows_) {
    std::string line = indent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - display_width(cells[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == Align::left ? cells[i] + pad : pad + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string TextTable::markdown() const {
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += "|";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::string cell = i < rows_[r].size() ? rows_[r][i] : "";
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
      out += " " + cell + " |";
    }
    out += "\n";
    if (r > 0) continue;
    out += "|";
    for (const Align a : columns_) out += a == Align::left ? "---|" : "---:|";
    out += "\n";
  }
  return out;
}

std::string wrapped(const std::string& text, const std::string& indent, std::size_t width) {
  std::string out, line;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, to - from);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    from = to + 1;
  }
  return out + (line.empty() ? "" : indent + line + "\n");
}

}  // namespace gpuplan
