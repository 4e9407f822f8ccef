// A reading position in the text of one YAML scalar, shared by the readers of expressions and calls.
// Knows the file position of every character, so that an error's caret stands under it.
#pragma once

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_word(char c) { return is_word_start(c) || is_digit(c); }
bool is_identifier(std::string_view text);

class Cursor {
 public:
  explicit Cursor(const YamlNode& node) : node_(&node), text_(node.text) {}

  const YamlNode& node() const { return *node_; }
  std::size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  /// The character `ahead` of the position; '\0' past the end.
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skip(std::size_t n = 1) { at_ += n; }
  void skip_blanks();
  /// Skips `token` if it is next.
  bool take(std::string_view token);
  /// The longest run of letters, digits and underscores from here; empty when there is none.
  std::string_view take_word();
  std::string_view since(std::size_t from) const { return text_.substr(from, at_ - from); }

  SourceMark mark(std::size_t from, std::size_t length) const { return node_->mark_at(from, length); }
  SourceMark mark_since(std::size_t from) const { return mark(from, at_ - from); }
  /// The next character, or the place behind the last one.
  SourceMark mark_here() const { return mark(at_, 1); }

 private:
  const YamlNode* node_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace gpuplan
