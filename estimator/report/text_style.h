// Text style: what the output device can show, and how much detail is wanted.
#pragma once

#include <string>

#include "estimator/base/format.h"

namespace gpuplan {

/// What the output device can show, and how much detail is wanted.
struct TextStyle {
  bool color = false;
  bool unicode = true;
  int width = 80;            // columns
  bool interactive = false;  // a person at a terminal: bars, timeline, what to try next. Piped: plain rows.
  bool exact_bytes = false;  // every amount in bytes
  Units units = Units::iec;
  bool verbose = false;   // phases, allocator
  bool brief = false;     // the verdict only
  bool timeline = false;  // of a plan, also where it is piped
};

/// "1.51 GiB", or "1,621,426,176 B" where every amount is wanted in bytes.
inline std::string styled_bytes(std::int64_t bytes, const TextStyle& style) {
  return style.exact_bytes ? format_count(bytes) + " B" : format_bytes(bytes, style.units);
}

/// "✔" or "✖".
inline std::string mark_of(bool good, const TextStyle& style) {
  return style.unicode ? (good ? "✔" : "✖") : (good ? "[ok]" : "[no]");
}

/// What the screens of reports have in common.
class StyledScreen {
 public:
  explicit StyledScreen(const TextStyle& style) : style_(style) {}

 protected:
  std::string bytes(std::int64_t n) const { return styled_bytes(n, style_); }
  std::string dot() const { return style_.unicode ? " · " : " | "; }
  /// `code`: of ANSI's Select Graphic Rendition (ECMA-48 8.3.117): "1" bold, "32" green.
  std::string paint(const char* code, const std::string& text) const {
    return style_.color ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text;
  }
  /// Eighths of a column in Unicode, whole columns in ASCII.
  std::string bar(std::int64_t per_mille, std::size_t columns) const {
    static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths = static_cast<std::size_t>(per_mille) * columns * 8 / 1000;
    std::string out;
    for (std::size_t i = 0; i < eighths / 8; ++i) out += style_.unicode ? "█" : "#";
    return style_.unicode ? out + kEighths[eighths % 8] : out;
  }
  /// "✔ fits NVIDIA T4 (15,095 MiB): 9 %, 13.3 GiB free"; below 0 free there is too much.
  std::string fit_words(bool fits, const std::string& device, const std::string& share, std::int64_t free) const {
    const std::string mark = mark_of(fits, style_) + (fits ? " fits" : " does not fit");
    return paint(fits ? "32" : "31", mark) + " " + device + ": " +
           (fits ? share + bytes(free) + " free" : bytes(-free) + " over");
  }

  const TextStyle& style_;
};

}  // namespace gpuplan
