#include "tools/importers/json_text.h"

#include <algorithm>
#include <unordered_set>

namespace gpuplan {

namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), text_(source.text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
  }

  JsonValue document() {
    JsonValue value = this->value(0);
    space();
    if (at_ < text_.size()) throw unexpected("the end of the file");
    return value;
  }

 private:
  JsonValue value(int depth) {
    space();
    if (depth > kMaxDepth) throw Error("more than 64 levels of JSON").at(here());
    JsonValue v;
    v.mark = here();
    const std::size_t start = at_;
    const char c = peek();
    if (c == '{') {
      object(v, depth);
    } else if (c == '[') {
      array(v, depth);
    } else if (c == '"') {
      v.kind = JsonValue::Kind::string;
      v.text = string();
    } else if (c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I') {
      v.kind = JsonValue::Kind::number;
      v.text = number();
    } else {
      word(v);
    }
    if (v.mark.line == line_) v.mark.length = static_cast<int>(std::min<std::size_t>(at_ - start, 1000));
    return v;
  }

  void object(JsonValue& v, int depth) {
    v.kind = JsonValue::Kind::object;
    std::unordered_set<std::string> keys;
    ++at_;
    if (closes('}')) return;
    do {
      space();
      JsonMember member;
      member.mark = here();
      if (peek() != '"') throw unexpected("a key in double quotes");
      const std::size_t start = at_;
      member.key = string();
      member.mark.length = static_cast<int>(std::min<std::size_t>(at_ - start, 1000));
      if (!keys.insert(member.key).second) throw Error("the key \"" + member.key + "\" appears twice").at(member.mark);
      space();
      if (peek() != ':') throw unexpected("':' after the key");
      ++at_;
      member.value = value(depth + 1);
      v.members.push_back(std::move(member));
    } while (continues('}'));
  }

  void array(JsonValue& v, int depth) {
    v.kind = JsonValue::Kind::array;
    ++at_;
    if (closes(']')) return;
    do v.items.push_back(value(depth + 1));
    while (continues(']'));
  }

  bool closes(char bracket) {
    space();
    if (peek() != bracket) return false;
    ++at_;
    return true;
  }
  // After an item: a comma and another one, or the closing bracket.
  bool continues(char bracket) {
    if (closes(bracket)) return false;
    if (peek() != ',') throw unexpected(std::string("',' or '") + bracket + "'");
    ++at_;
    return true;
  }

  void word(JsonValue& v) {
    if (take("true")) {
      v.kind = JsonValue::Kind::boolean;
      v.boolean = true;
    } else if (take("false")) {
      v.kind = JsonValue::Kind::boolean;
    } else if (!take("null")) {
      throw unexpected("a value");
    }
  }

  std::string number() {
    const std::size_t start = at_;
    if (take("NaN") || take("Infinity") || take("-Infinity")) return std::string(text_.substr(start, at_ - start));
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) throw unexpected("a number");
    if (peek() == '.') {
      ++at_;
      if (digits() == 0) throw unexpected("digits after the decimal point");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (digits() == 0) throw unexpected("digits of the exponent");
    }
    return std::string(text_.substr(start, at_ - start));
  }
  std::size_t digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - start;
  }

  std::string string() {
    std::string out;
    for (++at_; peek() != '"';) {
      const char c = peek();
      if (at_ >= text_.size() || static_cast<unsigned char>(c) < 0x20)
        throw unexpected("'\"' at the end of the string");
      ++at_;
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
    ++at_;
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view kWritten = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (const std::size_t i = kWritten.find(c); c != '\0' && i != std::string_view::npos) {
      out += kMeant[i];
      ++at_;
    } else if (c == 'u') {
      ++at_;
      unsigned code = hex();
      if (code >= 0xD800 && code < 0xDC00 && take("\\u")) code = 0x10000 + ((code - 0xD800) << 10) + (hex() - 0xDC00);
      append_utf8(out, code & 0x1FFFFF);
    } else {
      throw unexpected("an escape such as \\n or \\u00e9");
    }
  }
  unsigned hex() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const unsigned lower = static_cast<unsigned char>(c) | 0x20U;
      if (c >= '0' && c <= '9')
        code = code * 16 + static_cast<unsigned>(c - '0');
      else if (lower >= 'a' && lower <= 'f')
        code = code * 16 + lower - 'a' + 10;
      else
        throw unexpected("four hexadecimal digits");
    }
    return code;
  }
  static void append_utf8(std::string& out, unsigned code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0U | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0U | (code >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0U | (code >> 18 & 7U));
      tail(12), tail(6), tail(0);
    }
  }

  void space() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  SourceMark here() const { return {&source_, line_, static_cast<int>(at_ - line_start_) + 1, 1}; }

  Error unexpected(const std::string& expected) const {
    Error error("this is not JSON: expected " + expected +
                (at_ < text_.size() ? std::string(", found '") + text_[at_] + "'" : ", and the file ends"));
    return error.at(here());
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members)
    if (member.key == key) return &member.value;
  return nullptr;
}

JsonValue parse_json(const Source& source) { return Parser(source).document(); }

std::string_view describe(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::null: return "null";
    case JsonValue::Kind::boolean: return "a boolean";
    case JsonValue::Kind::number: return "a number";
    case JsonValue::Kind::string: return "a string";
    case JsonValue::Kind::array: return "a list";
    case JsonValue::Kind::object: return "an object";
  }
  return "";
}

}  // namespace gpuplan
