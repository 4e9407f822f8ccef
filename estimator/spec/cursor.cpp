#include "estimator/spec/cursor.h"

#include <algorithm>

namespace gpuplan {

bool is_identifier(std::string_view text) {
  return !text.empty() && is_word_start(text.front()) && std::all_of(text.begin(), text.end(), is_word);
}

void Cursor::skip_blanks() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at_;
}

bool Cursor::take(std::string_view token) {
  if (!text_.substr(std::min(at_, text_.size())).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

std::string_view Cursor::take_word() {
  const std::size_t from = at_;
  while (is_word(peek())) ++at_;
  return since(from);
}

}  // namespace gpuplan
