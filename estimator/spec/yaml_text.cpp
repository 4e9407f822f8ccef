#include "estimator/spec/yaml_text.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/utf8.h"
#include "estimator/spec/limits.h"

namespace gpuplan {
namespace {

// The place of a byte offset. Only errors pay for the walk.
SourceMark mark_of_offset(const Source& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.text).substr(0, offset);
  const auto newline = before.rfind('\n');
  SourceMark mark;
  mark.source = &source;
  mark.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  mark.column = static_cast<int>(newline == std::string_view::npos ? offset : offset - newline - 1) + 1;
  return mark;
}

void check_bytes(const Source& source) {
  const std::string_view text = source.text;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw Error(source.name + " is UTF-16").help("save it as UTF-8");
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x7F || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) {
      throw Error(c == 0 ? "a NUL byte in the file: is it a model spec?" : "a control character in the file")
          .at(mark_of_offset(source, i))
          .label("byte " + std::to_string(static_cast<int>(c)));
    }
    const std::size_t length = utf8_sequence_bytes(text.substr(i));
    if (length == 0) {
      throw Error("the file is not UTF-8 text")
          .at(mark_of_offset(source, i))
          .label("byte " + std::to_string(static_cast<int>(c)) + " does not begin a character");
    }
    i += length;
  }
}

void check_indentation(const Source& source) {
  const std::string_view text = source.text;
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    const std::size_t content = std::min(text.find_first_not_of(" \t\r", line), end);
    const std::size_t tab = text.substr(line, content - line).find('\t');
    const bool blank = content == end || text[content] == '#';
    if (tab != std::string_view::npos && !blank)
      throw Error("a tab in the indentation")
          .at(mark_of_offset(source, line + tab))
          .label("YAML is indented with spaces only");
    line = end + 1;
  }
}

}  // namespace

std::size_t byte_order_mark_bytes(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

void check_yaml_text(const Source& source) {
  if (source.text.size() > kMaxSpecBytes)
    throw Error(source.name + " has " + std::to_string(source.text.size()) + " bytes; a model spec has at most " +
                std::to_string(kMaxSpecBytes));
  check_bytes(source);
  check_indentation(source);
}

}  // namespace gpuplan
