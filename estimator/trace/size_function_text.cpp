#include <algorithm>
#include <charconv>

#include "estimator/trace/size_function.h"

namespace gpuplan {
namespace {

std::string power_text(const std::string& name, std::size_t power) {
  if (power == 0) return "";
  return "*" + name + (power > 1 ? "^" + std::to_string(power) : "");
}

// Takes a text apart from its front.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool empty() const { return text_.empty(); }
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::int64_t> integer() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

 private:
  std::string_view text_;
};

// "*batch*seq^2" behind a coefficient: the powers. Each variable once.
std::optional<std::array<std::size_t, 2>> powers(Cursor& cursor, std::span<const TraceVariable> variables) {
  std::array<std::size_t, 2> power{};
  while (cursor.take('*')) {
    std::size_t v = 0;
    // Longer names first would matter where one begins another: the character after a name tells.
    for (std::size_t longest = 0, i = 0; i < variables.size(); ++i) {
      Cursor ahead = cursor;
      if (ahead.take(std::string_view(variables[i].name)) && variables[i].name.size() > longest)
        longest = variables[i].name.size(), v = i + 1;
    }
    if (v == 0 || power[v - 1] != 0) return std::nullopt;
    cursor.take(std::string_view(variables[v - 1].name));
    power[v - 1] = 1;
    if (!cursor.take('^')) continue;
    const std::optional<std::int64_t> p = cursor.integer();
    if (!p || *p < 2 || *p > static_cast<std::int64_t>(kMaxDegree)) return std::nullopt;
    power[v - 1] = static_cast<std::size_t>(*p);
  }
  return power;
}

bool terms(Cursor& cursor, std::span<const TraceVariable> variables, SizeFunction& function) {
  bool first = true;
  do {
    Cursor ahead = cursor;
    const bool negative = ahead.take('-');
    if (!first && !negative && !cursor.take('+')) return false;
    const std::optional<std::int64_t> value = cursor.integer();
    const auto power = value ? powers(cursor, variables) : std::nullopt;
    if (!power) return false;
    std::int64_t& c = function.coefficient[(*power)[0]][(*power)[1]];
    if (c != 0) return false;
    c = *value;
    first = false;
  } while (!cursor.empty() && !(Cursor(cursor).take(')')));
  return true;
}

}  // namespace

bool is_variable_name(std::string_view name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, is_word);
}

std::string text_of(const SizeFunction& function, std::span<const TraceVariable> variables) {
  std::string text;
  for (std::size_t i = function.coefficient.size(); i-- > 0;)
    for (std::size_t k = function.coefficient[i].size(); k-- > 0;) {
      const std::int64_t c = function.coefficient[i][k];
      if (c == 0) continue;
      text += (c > 0 && !text.empty() ? "+" : "") + std::to_string(c);
      text += power_text(variables[0].name, i);
      if (variables.size() > 1) text += power_text(variables[1].name, k);
    }
  if (text.empty()) text = "0";
  return function.divisor == 1 ? text : "(" + text + ")/" + std::to_string(function.divisor);
}

std::optional<SizeFunction> parse_size_function(std::string_view text, std::span<const TraceVariable> variables) {
  SizeFunction function;
  Cursor cursor(text);
  const bool divided = cursor.take('(');
  if (!terms(cursor, variables, function)) return std::nullopt;
  if (divided) {
    if (!cursor.take(')') || !cursor.take('/')) return std::nullopt;
    const std::optional<std::int64_t> divisor = cursor.integer();
    if (!divisor || *divisor < 2) return std::nullopt;
    function.divisor = *divisor;
  }
  if (!cursor.empty()) return std::nullopt;
  return function;
}

}  // namespace gpuplan
