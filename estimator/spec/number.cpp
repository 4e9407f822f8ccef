#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "estimator/spec/expression.h"

namespace gpuplan {
namespace {

void skip_digits(Cursor& cursor) {
  while (is_digit(cursor.peek())) cursor.skip();
}

// Skips "e-05" if that is next; an `e` that no number follows is left.
bool skip_exponent(Cursor& cursor) {
  if (cursor.peek() != 'e' && cursor.peek() != 'E') return false;
  const std::size_t sign = cursor.peek(1) == '-' || cursor.peek(1) == '+' ? 1 : 0;
  if (!is_digit(cursor.peek(1 + sign))) return false;
  cursor.skip(1 + sign);
  skip_digits(cursor);
  return true;
}

}  // namespace

bool at_number(const Cursor& cursor) {
  const std::size_t sign = cursor.peek() == '-' ? 1 : 0;
  return is_digit(cursor.peek(sign)) || (cursor.peek(sign) == '.' && is_digit(cursor.peek(sign + 1)));
}

Scalar read_number(Cursor& cursor) {
  const std::size_t from = cursor.at();
  cursor.take("-");
  const std::size_t digits = cursor.at();
  skip_digits(cursor);
  const bool leading_zero = cursor.at() - digits > 1 && cursor.node().text[digits] == '0';
  bool real = false;
  if (cursor.peek() == '.') {
    real = true;
    cursor.skip();
    skip_digits(cursor);
  }
  real = skip_exponent(cursor) || real;
  const std::string_view text = cursor.since(from);
  if (is_word(cursor.peek()) || cursor.peek() == '.') {
    const std::size_t end = cursor.at();
    while (is_word(cursor.peek()) || cursor.peek() == '.') cursor.skip();
    throw Error("\"" + std::string(cursor.since(from)) + "\" is not a number").at(cursor.mark(end, cursor.at() - end));
  }
  if (leading_zero && !real) throw Error("a number with leading zeros").at(cursor.mark_since(from));
  std::int64_t integer = 0;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto result = real ? std::from_chars(text.data(), end, number) : std::from_chars(text.data(), end, integer);
  if (result.ec != std::errc{} || result.ptr != end || !std::isfinite(number))
    throw Error(std::string(text) + " does not fit in 64 bits").at(cursor.mark_since(from));
  return real ? Scalar{number} : Scalar{integer};
}

bool looks_boolean(std::string_view word) {
  constexpr std::array<std::string_view, 12> kWords = {"yes", "Yes", "YES", "no",  "No",  "NO",
                                                       "on",  "On",  "ON",  "off", "Off", "OFF"};
  for (const std::string_view w : kWords)
    if (word == w) return true;
  return false;
}

std::string kind_of(const Scalar& value) {
  if (std::holds_alternative<bool>(value)) return "true or false";
  return std::holds_alternative<double>(value) ? "a real number" : "an integer";
}

std::string to_string(const Scalar& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const std::int64_t* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::get<double>(value)).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // stays a real number when read back
  return text;
}

}  // namespace gpuplan
