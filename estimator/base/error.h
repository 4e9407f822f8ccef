// The one error type for bad input, with the place it points at. Thrown by the stages, caught once in
// tools/; expected outcomes ("does not fit") are values, never errors.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// A text that marks point into: a model file, standard input, an embedded zoo model.
struct Source {
  std::string name;
  std::string text;
  /// The text of line n, 1-based, without its line end; empty when there is no such line.
  std::string_view line(int n) const;
};

/// A place in a Source; line and column are 1-based, length counts bytes under the caret.
/// line == 0: nowhere. The Source must outlive the mark.
struct SourceMark {
  const Source* source = nullptr;
  int line = 0;
  int column = 0;
  int length = 1;
};

enum class ErrorKind { input, usage, environment };  // exit codes 3, 2, 4: chosen in tools/ only

class Error : public std::runtime_error {
 public:
  explicit Error(std::string message, ErrorKind kind = ErrorKind::input)
      : std::runtime_error(message), message_(std::move(message)), kind_(kind) {}

  /// Points at a place. The first place set wins, so callers may add one while unwinding. Copies the
  /// line, so the Error may outlive the Source.
  Error& at(const SourceMark& mark);
  /// The words after the caret ("write _ to take it from the previous layer").
  Error& label(std::string text);
  /// A line of its own below: what to do, what exists.
  Error& help(std::string text);
  /// Where, for readers ("in layer1.1 (block Bottleneck, repeat 2 of 3)").
  Error& context(std::string text);

  const std::string& message() const { return message_; }
  const std::string& advice() const { return help_; }  // of help(), or ""
  ErrorKind kind() const { return kind_; }
  const std::string& file() const { return file_; }
  int line() const { return line_; }
  int column() const { return column_; }

  /// The whole report, rustc style, ending in a newline:
  ///   error: MESSAGE
  ///     --> FILE:LINE:COL   CONTEXT
  ///    12 | the line
  ///       |     ^^^ LABEL
  ///     help: HELP
  std::string render() const;

 private:
  std::string message_, label_, help_, context_, file_, text_;
  ErrorKind kind_;
  int line_ = 0, column_ = 0, length_ = 1;
};

/// The candidate nearest to `word` (edit distance <= 1 + length / 4, case-insensitive), or "" when
/// none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// " — did you mean \"X\"?" for the nearest candidate, or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gpuplan
