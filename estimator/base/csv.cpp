#include "estimator/base/csv.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gpuplan {
namespace {

// Reads one field after another. Not libcsv, because each field must have its position.
class CsvReader {
 public:
  // Excel writes a byte order mark before UTF-8.
  explicit CsvReader(const Source& source) : source_(source) {
    if (source.text.starts_with("\xef\xbb\xbf")) line_begin_ = at_ = 3;
  }

  bool at_end() const { return at_ >= source_.text.size(); }

  // One line of fields; a line end within quotes is text.
  std::vector<CsvField> row() {
    std::vector<CsvField> fields;
    do fields.push_back(field());
    while (take(','));
    take('\r');
    if (!at_end() && !take('\n')) throw Error("text after a quoted field").at(here(1));
    ++line_;
    line_begin_ = at_;
    return fields;
  }

 private:
  char next() const { return at_end() ? '\0' : source_.text[at_]; }
  bool take(char c) {
    if (at_end() || source_.text[at_] != c) return false;
    ++at_;
    return true;
  }
  SourceMark here(std::size_t length) const {
    return {&source_, line_, static_cast<int>(at_ - line_begin_) + 1,
            static_cast<int>(std::max<std::size_t>(length, 1))};
  }

  CsvField field() {
    if (next() == '"') return quoted();
    const std::size_t end = std::min(source_.text.find_first_of(",\r\n", at_), source_.text.size());
    CsvField field{source_.text.substr(at_, end - at_), here(end - at_)};
    for (const char c : field.text)
      if (static_cast<unsigned char>(c) < ' ') throw Error("a control character in a field").at(field.mark);
    at_ = end;
    return field;
  }

  CsvField quoted() {
    CsvField field{"", here(1)};
    for (++at_;; ++at_) {
      if (at_end()) throw Error("a quoted field does not end").at(field.mark);
      const char c = next();
      if (c == '"' && (at_ + 1 >= source_.text.size() || source_.text[at_ + 1] != '"')) break;
      if (c == '"') ++at_;
      if (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\t')
        throw Error("a control character in a field").at(here(1));
      field.text += c == '\n' || c == '\r' ? ' ' : c;
      if (c == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      }
    }
    ++at_;
    return field;
  }

  const Source& source_;
  std::size_t at_ = 0, line_begin_ = 0;
  int line_ = 1;
};

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

namespace {

// What spreadsheets write that call it CSV: UTF-16, semicolons where the comma is a decimal point, tabs.
void refuse_other_formats(const Source& source) {
  const std::string_view text = source.text;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw Error(source.name + " is UTF-16").help("save it as CSV in UTF-8");
  const std::string_view heading = text.substr(0, text.find_first_of("\r\n"));
  if (heading.find(',') != std::string_view::npos) return;
  const SourceMark mark{&source, 1, 1, static_cast<int>(heading.size())};
  for (const auto& [separator, name] : {std::pair(';', "semicolons"), std::pair('\t', "tabs")})
    if (heading.find(separator) != std::string_view::npos)
      throw Error(std::string(name) + " part the fields, not commas")
          .at(mark)
          .help("save it with commas, and with points in numbers");
}

}  // namespace

CsvTable::CsvTable(const Source& source) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  if (source.text.size() > kMostBytes) throw Error(source.name + " is larger than 64 MiB").help("filter it first");
  refuse_other_formats(source);
  CsvReader reader(source);
  if (reader.at_end()) throw Error(source.name + " is empty").help("the first line names the columns");
  columns_ = reader.row();
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (index_of(columns_[i].text) != i)
      throw Error("the column \"" + columns_[i].text + "\" appears twice").at(columns_[i].mark);
  while (!reader.at_end()) {
    std::vector<CsvField> row = reader.row();
    if (row.size() == 1 && row.front().text.empty()) continue;  // an empty line
    if (row.size() != columns_.size())
      throw Error("this line has " + std::to_string(row.size()) + " fields, the first has " +
                  std::to_string(columns_.size()))
          .at(row.front().mark);
    rows_.push_back(std::move(row));
  }
}

std::size_t CsvTable::index_of(std::string_view column) const {
  return static_cast<std::size_t>(std::ranges::find(columns_, column, &CsvField::text) - columns_.begin());
}

const CsvField& CsvTable::at(std::size_t row, std::string_view column) const {
  const std::size_t index = index_of(column);
  return index < columns_.size() ? rows_[row][index] : none_;
}

}  // namespace gpuplan
