#include "estimator/report/escape.h"

#include <algorithm>

#include "estimator/base/excerpt.h"

namespace gpuplan {

// https://github.github.com/gfm/#backslash-escapes: a backslash takes the meaning of any ASCII punctuation. Mentions,
// issues and bare addresses are looked for in the text as it is shown, whatever it was escaped with; a zero-width space
// parts them.
std::string markdown_text(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]()#+!~$";
  constexpr const char* kApart = "\xe2\x80\x8b";
  std::string out;
  for (const char c : printable_text(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else {
      if (kMarkup.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    if (c == '@' || c == '#' || out.ends_with("://") || out.ends_with("www.")) out += kApart;
  }
  return out;
}

// The fence is longer than any run of backticks within: https://github.github.com/gfm/#code-spans. A pipe would end the
// cell of a table all the same, and is escaped by who writes the table.
std::string markdown_code(std::string_view text) {
  const std::string line = printable_text(text);
  std::size_t longest = 0, run = 0;
  for (const char c : line) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`'), space(longest > 0 || line.empty() ? " " : "");
  return fence + space + line + space + fence;
}

}  // namespace gpuplan
