#include "estimator/spec/call.h"

#include <algorithm>
#include <array>
#include <optional>

#include "estimator/spec/limits.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"torch.nn.", "nn."};

// Skips "nn.", reads the name; its mark covers the name alone.
void read_type_name(Cursor& cursor, CallSyntax& call) {
  for (const std::string_view prefix : kPrefixes)
    if (cursor.take(prefix)) break;
  const std::size_t from = cursor.at();
  call.type = cursor.take_word();
  call.mark = cursor.mark_since(from);
  if (!is_identifier(call.type)) {
    Error error("a layer call begins with the layer's name");
    error.at(cursor.mark(from, 1)).help("as in torch.nn: Conv2d(3, 64, kernel_size=7)");
    throw error;
  }
}

// The arguments of one call. Nesting (tuples) is bounded by kMaxExpressionDepth.
class CallReader {
 public:
  CallReader(Cursor& cursor, const Names& names) : cursor_(cursor), names_(names) {}

  void arguments(CallSyntax& call) {
    const std::size_t open = cursor_.at();
    cursor_.skip();  // (
    for (;;) {
      cursor_.skip_blanks();
      if (cursor_.take(")")) return;
      if (call.arguments.size() == kMaxArguments)
        throw Error("more than " + std::to_string(kMaxArguments) + " arguments").at(cursor_.mark_here());
      call.arguments.push_back(argument(open));
      check_order(call.arguments);
      separator(open, ')');
    }
  }

  ValueSyntax value(std::size_t open) {
    const std::size_t from = cursor_.at();
    ValueSyntax out;
    const char next = cursor_.peek();
    if (next == '(' || next == '[') {
      out = sequence(next == '(' ? ')' : ']');
    } else if (next == '$') {
      out.as = Expression::read(cursor_, names_);
    } else if (next == '"' || next == '\'') {
      out.as = Value{quoted_text()};
    } else if (at_number(cursor_)) {
      out.as = number();
    } else if (is_word_start(next)) {
      out.as = word();
    } else {
      refuse(open);
    }
    out.mark = cursor_.mark_since(from);
    refuse_arithmetic();
    return out;
  }

 private:
  ArgumentSyntax argument(std::size_t open) {
    ArgumentSyntax out;
    const std::size_t from = cursor_.at();
    Cursor ahead = cursor_;
    const std::string_view word = ahead.take_word();
    ahead.skip_blanks();
    if (is_identifier(word) && ahead.peek() == '=' && ahead.peek(1) != '=') {
      out.name = word;
      out.name_mark = cursor_.mark(from, word.size());
      cursor_ = ahead;
      cursor_.skip();
      cursor_.skip_blanks();
    }
    out.value = value(open);
    return out;
  }

  static void check_order(const std::vector<ArgumentSyntax>& arguments) {
    const ArgumentSyntax& last = arguments.back();
    for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
      const ArgumentSyntax& earlier = arguments[i];
      if (last.name.empty() && !earlier.name.empty())
        throw Error("a positional argument after the keyword \"" + earlier.name + "\"")
            .at(last.value.mark)
            .label("write it as keyword=value, or before the keywords");
      if (!last.name.empty() && last.name == earlier.name)
        throw Error("the keyword \"" + last.name + "\" is given twice").at(last.name_mark);
    }
  }

  // Between arguments: a comma, or the closing parenthesis, which is left.
  void separator(std::size_t open, char closing) {
    const std::size_t end = cursor_.at();
    cursor_.skip_blanks();
    if (cursor_.take(",") || cursor_.peek() == closing) return;
    if (cursor_.done()) unclosed(open);
    if (cursor_.peek() == ')' || cursor_.peek() == ']')
      throw Error("a '" + std::string(1, cursor_.peek()) + "' closes what '" +
                  std::string(1, closing == ')' ? '(' : '[') + "' opened")
          .at(cursor_.mark_here())
          .label("expected " + std::string(1, closing));
    Error error("expected a comma or a closing " + std::string(closing == ')' ? "parenthesis" : "bracket"));
    error.at(cursor_.at() > end ? cursor_.mark(end, 1) : cursor_.mark_here());
    throw error.label("a comma is missing here");
  }

  [[noreturn]] void unclosed(std::size_t open) const {
    const bool parenthesis = cursor_.node().text[open] == '(';
    Error error(parenthesis ? "a parenthesis is not closed" : "a bracket is not closed");
    error.at(cursor_.mark(open, 1)).label("opened here");
    if (cursor_.node().in_flow && !cursor_.node().quoted)
      error.help("inside { } and [ ] a comma ends the text: quote the call, or write one layer per line");
    throw error;
  }

  [[noreturn]] void refuse(std::size_t open) const {
    if (cursor_.done()) unclosed(open);
    const char next = cursor_.peek();
    Error error("expected a value");
    error.at(cursor_.mark_here());
    if (next == ',') error.label("nothing before this comma");
    if (next == ')' || next == ']') error.label("nothing before this");
    throw error.help("a value is a number, True, False, None, _, a word, 'text', (a, b), $name or ${expression}");
  }

  ValueSyntax sequence(char closing) {
    const std::size_t open = cursor_.at();
    if (++depth_ > kMaxExpressionDepth)
      throw Error("tuples nested deeper than " + std::to_string(kMaxExpressionDepth)).at(cursor_.mark_here());
    cursor_.skip();
    std::vector<ValueSyntax> items;
    bool comma = false;  // (3) is 3, (3,) is a tuple
    for (;;) {
      cursor_.skip_blanks();
      if (cursor_.peek() == closing) break;
      items.push_back(value(open));
      const std::size_t end = cursor_.at();
      separator(open, closing);
      comma = comma || cursor_.since(end).find(',') != std::string_view::npos;
    }
    cursor_.skip();
    --depth_;
    if (closing == ')' && items.size() == 1 && !comma) return std::move(items.front());
    ValueSyntax out;
    out.as = std::move(items);
    return out;
  }

  Value quoted_text() {
    const std::size_t open = cursor_.at();
    const char quote = cursor_.peek();
    cursor_.skip();
    std::string text;
    while (!cursor_.done() && cursor_.peek() != quote) {
      if (cursor_.peek() == '\\') {
        cursor_.skip();
        const char c = cursor_.peek();
        if (c != '\\' && c != '\'' && c != '"')
          throw Error("an escape other than \\\\, \\' and \\\"").at(cursor_.mark_here());
      }
      text += cursor_.peek();
      cursor_.skip();
    }
    if (cursor_.done()) throw Error("a quotation mark is not closed").at(cursor_.mark(open, 1)).label("opened here");
    cursor_.skip();
    return Value{std::move(text)};
  }

  Value number() {
    const Scalar n = read_number(cursor_);
    if (const auto* integer = std::get_if<std::int64_t>(&n)) return Value{*integer};
    return Value{std::get<double>(n)};
  }

  Value word() {
    const std::size_t from = cursor_.at();
    cursor_.take_word();
    while (cursor_.peek() == '.' && is_word_start(cursor_.peek(1))) {  // torch.float16
      cursor_.skip();
      cursor_.take_word();
    }
    const std::string_view word = cursor_.since(from);
    if (word == "None") return Value{None{}};
    if (word == "_") return Value{Inferred{}};
    if (word == "True" || word == "true") return Value{true};
    if (word == "False" || word == "false") return Value{false};
    if (looks_boolean(word))
      throw Error("\"" + std::string(word) + "\" is not a boolean")
          .at(cursor_.mark_since(from))
          .label("write True or False");
    if (cursor_.peek() == '(')
      throw Error("a call among the arguments of a layer")
          .at(cursor_.mark_since(from))
          .label("write it as a layer of its own");
    return Value{std::string(word)};
  }

  void refuse_arithmetic() {
    Cursor ahead = cursor_;
    ahead.skip_blanks();
    const char next = ahead.peek();
    if (next == '*' || next == '+' || next == '/' || next == '%' || next == '-')
      throw Error("arithmetic outside ${ }").at(ahead.mark_here()).help("write ${4*x}: names inside it have no $");
  }

  Cursor& cursor_;
  const Names& names_;
  int depth_ = 0;
};

Value evaluate(const ValueSyntax& syntax, const Scope& scope) {
  if (const Value* constant = std::get_if<Value>(&syntax.as)) return *constant;
  if (const auto* items = std::get_if<std::vector<ValueSyntax>>(&syntax.as)) {
    std::vector<Value> values;
    values.reserve(items->size());
    for (const ValueSyntax& item : *items) values.push_back(evaluate(item, scope));
    return Value{std::move(values)};
  }
  return std::visit([](auto v) { return Value{v}; }, std::get<Expression>(syntax.as).evaluate(scope));
}

void expect_scalar(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) throw Error("expected a layer call, not " + describe(node)).at(node.mark);
}

}  // namespace

bool is_call(const YamlNode& node) { return node.text.find('(') != std::string::npos; }

CallSyntax read_type(const YamlNode& node) {
  expect_scalar(node);
  Cursor cursor(node);
  CallSyntax call;
  read_type_name(cursor, call);
  if (!cursor.done()) throw Error("unexpected text after the layer's name").at(cursor.mark_here());
  return call;
}

CallSyntax read_call(const YamlNode& node, const Names& names) {
  expect_scalar(node);
  Cursor cursor(node);
  CallSyntax call;
  read_type_name(cursor, call);
  cursor.skip_blanks();
  if (cursor.done())
    throw Error("\"" + call.type + "\" without parentheses").at(call.mark).label("write " + call.type + "()");
  if (cursor.peek() == ':')
    throw Error("no space after the colon").at(cursor.mark_here()).label("write \"" + call.type + ": ...\"");
  if (cursor.peek() != '(') throw Error("expected ( after the layer's name").at(cursor.mark_here()).label("expected (");
  CallReader(cursor, names).arguments(call);
  cursor.skip_blanks();
  if (!cursor.done())
    throw Error("unexpected text after the call")
        .at(cursor.mark_here())
        .label(cursor.peek() == ')' ? "this parenthesis was never opened" : "one call per entry");
  return call;
}

ValueSyntax read_value(const YamlNode& node, const Names& names) {
  ValueSyntax out;
  out.mark = node.mark;
  if (node.kind == YamlNode::Kind::null) {
    out.as = Value{None{}};
    return out;
  }
  if (node.kind == YamlNode::Kind::map) throw Error("an argument is a value, not a map").at(node.mark);
  if (node.kind == YamlNode::Kind::list) {
    std::vector<ValueSyntax> items;
    for (const YamlNode* item : node.children) items.push_back(read_value(*item, names));
    out.as = std::move(items);
    return out;
  }
  const char first = node.text.empty() ? '\0' : node.text.front();
  if (node.quoted && first != '$' && first != '(' && first != '[') {
    out.as = Value{node.text};
    return out;
  }
  Cursor cursor(node);
  out = CallReader(cursor, names).value(0);
  cursor.skip_blanks();
  if (!cursor.done()) {
    Error error("more text after the value");
    error.at(cursor.mark_here());
    throw error.help("text with blanks or signs in it is quoted");
  }
  return out;
}

LayerCall evaluate(const CallSyntax& call, const Scope& scope) {
  LayerCall out;
  out.type = call.type;
  out.mark = call.mark;
  out.arguments.reserve(call.arguments.size());
  for (const ArgumentSyntax& argument : call.arguments)
    out.arguments.push_back({argument.name, evaluate(argument.value, scope), argument.value.mark, argument.name_mark});
  return out;
}

}  // namespace gpuplan
