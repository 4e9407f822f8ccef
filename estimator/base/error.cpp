#include "estimator/base/error.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "estimator/base/excerpt.h"
#include "estimator/base/utf8.h"

namespace gpuplan {

std::string_view Source::line(int n) const {
  std::string_view rest = text;
  for (int i = 1; i < n; ++i) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

Error& Error::at(const SourceMark& mark) {
  if (line_ != 0 || mark.line == 0 || mark.source == nullptr) return *this;
  file_ = mark.source->name;
  text_ = std::string(mark.source->line(mark.line));
  line_ = mark.line;
  column_ = mark.column;
  length_ = mark.length;
  return *this;
}

Error& Error::label(std::string text) {
  if (label_.empty()) label_ = std::move(text);
  return *this;
}

Error& Error::help(std::string text) {
  if (help_.empty()) help_ = std::move(text);
  return *this;
}

Error& Error::context(std::string text) {
  if (context_.empty()) context_ = std::move(text);
  return *this;
}

namespace {

constexpr std::size_t kShownColumns = 160;  // a 100 MB line must not become a 100 MB message

// Characters of three bytes that end a line or turn the direction of the text around them: a name with those in it
// could show another verdict than there is (https://trojansource.codes). UAX #9 lists them.
bool turns_text(std::string_view character) {
  if (!character.starts_with("\xE2")) return false;
  const std::string_view rest = character.substr(1);
  const auto within = [&](std::string_view from, std::string_view to) { return rest >= from && rest <= to; };
  return within("\x80\x8E", "\x80\x8F") || within("\x80\xA8", "\x80\xAE") || within("\x81\xA6", "\x81\xA9");
}

// Names out of a file may hold anything; on a terminal a control byte is a command, and so are those of Unicode from
// U+0080 to U+009F, and to some terminals single bytes that are no UTF-8. As many bytes as before: columns are counted
// in them.
std::string harmless(std::string text) {
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    length = utf8_sequence_bytes(std::string_view(text).substr(i));
    if (length == 0) {
      text[i] = '?';
      length = 1;
    }
    const bool second = i + 1 < text.size() && text[i] == '\xC2' && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (second) text[i + 1] = ' ';
    if (second || std::iscntrl(static_cast<unsigned char>(text[i])) != 0) text[i] = ' ';
    if (turns_text(std::string_view(text).substr(i, 3))) text.replace(i, 3, "\xEF\xBF\xBD");
  }
  return text;
}

// What can be printed of a line: tabs and control bytes as spaces, cut to the part around the caret.
std::string printable(std::string_view text, std::size_t& column) {
  std::size_t from = 0;
  if (column > kShownColumns / 2 && text.size() > kShownColumns) from = column - kShownColumns / 2;
  column -= from;
  return harmless(std::string(text.substr(std::min(from, text.size()), kShownColumns)));
}

// "m.yaml:12:5". Of an import the lines are those of the spec that was made of the file, which nobody has open.
std::string place_text(std::string_view file, int line, int column) {
  constexpr std::string_view kImport = "import:";
  if (!file.starts_with(kImport)) return std::string(file) + ":" + std::to_string(line) + ":" + std::to_string(column);
  const std::string path(file.substr(kImport.size()));
  return path + ", line " + std::to_string(line) + " of the spec that gpuplan import makes of it";
}

}  // namespace

std::string Error::render() const {
  std::string out = "error: ";
  out.append(harmless(message_)).append("\n");
  if (line_ > 0) {
    const std::string number = std::to_string(line_);
    const std::size_t gutter = std::max<std::size_t>(number.size() + 2, 4);
    out.append("  --> ").append(harmless(place_text(file_, line_, column_)));
    if (!context_.empty()) out.append("   ").append(harmless(context_));
    std::size_t column = static_cast<std::size_t>(std::max(column_, 1));
    const std::string text = printable(text_, column);
    out.append("\n").append(gutter - number.size() - 1, ' ').append(number).append(" | ").append(text).append("\n");
    const std::size_t room = text.size() >= column ? text.size() - column + 1 : 1;
    const auto carets = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(length_, 1)), 1, room);
    out.append(gutter, ' ').append("| ").append(column - 1, ' ').append(carets, '^');
    if (!label_.empty()) out.append(" ").append(harmless(label_));
    out.append("\n");
  } else if (!context_.empty()) {
    out.append("  ").append(harmless(context_)).append("\n");
  }
  if (!help_.empty()) out.append("  help: ").append(harmless(help_)).append("\n");
  return out;
}

namespace {

// Two letters in the wrong order count as one change (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto equal = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t same = last[j - 1] + (equal(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({same, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && equal(a[i - 1], b[j - 2]) && equal(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return "";
  std::string best;
  std::size_t best_distance = 2 + word.size() / 4;  // one more than what counts as near
  for (const std::string& c : candidates) {
    const std::size_t d = edit_distance(word, c);
    if (d < best_distance) {
      best_distance = d;
      best = c;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : " — did you mean \"" + best + "\"?";
}

std::string printable_text(std::string_view text) { return harmless(std::string(text)); }

std::string excerpt(const SourceMark& mark, std::string_view label) {
  if (mark.line == 0 || mark.source == nullptr) return "";
  const std::string report = Error("").at(mark).label(std::string(label)).render();
  return report.substr(report.find('\n') + 1);
}

}  // namespace gpuplan
