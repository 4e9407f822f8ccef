#include "estimator/spec/expression.h"

namespace gpuplan {
namespace {

Error wrong_kind(const std::string& what, const std::string& expected, const Scalar& got, const SourceMark& mark) {
  Error error(what + " is " + expected + ", not " + to_string(got));
  error.at(mark).label("expected " + expected);
  return error;
}

[[noreturn]] void refuse(const YamlNode& node, const std::string& what) {
  Error error(what + " must be a number, true, false or an expression, not " + describe(node));
  error.at(node.mark);
  if (node.kind == YamlNode::Kind::scalar && !node.quoted && looks_boolean(node.text))
    error.label("not a boolean: write true or false");
  else if (node.kind == YamlNode::Kind::scalar && node.quoted)
    error.label("quoted text");
  else if (node.kind == YamlNode::Kind::scalar && is_identifier(node.text))
    error.help("a variable is written $" + node.text);
  throw error;
}

}  // namespace

Quantity Quantity::read(const YamlNode& node, const Names& names, const std::string& what) {
  if (node.kind != YamlNode::Kind::scalar) refuse(node, what);
  Quantity quantity;
  quantity.what_ = what;
  quantity.mark_ = node.mark;
  Cursor cursor(node);
  if (cursor.peek() == '$')
    quantity.value_ = Expression::read(cursor, names);
  else if (!node.quoted && (node.text == "true" || node.text == "True"))
    quantity.value_ = Scalar{true};

  else if (!node.quoted && (node.text == "false" || node.text == "False"))
    quantity.value_ = Scalar{false};

  else if (!node.quoted && at_number(cursor))
    quantity.value_ = read_number(cursor);
  else
    refuse(node, what);
  cursor.skip_blanks();
  if (!cursor.done() && !is_word_start(node.text.front())) {
    Error error("more text after the value of " + what);
    throw error.at(cursor.mark_here()).help("arithmetic goes inside ${ }: ${4*x + 1}");
  }
  return quantity;
}

Scalar Quantity::value(const Scope& scope) const {
  if (const Scalar* constant = std::get_if<Scalar>(&value_)) return *constant;
  return std::get<Expression>(value_).evaluate(scope);
}

std::int64_t Quantity::integer(const Scope& scope) const {
  const Scalar v = value(scope);
  if (const auto* i = std::get_if<std::int64_t>(&v)) return *i;
  throw wrong_kind(what_, "an integer", v, mark_);
}

std::int64_t Quantity::size(const Scope& scope) const {
  const std::int64_t n = integer(scope);
  if (n < 1) throw Error(what_ + " is " + std::to_string(n)).at(mark_).label("expected at least 1");
  return n;
}

bool Quantity::boolean(const Scope& scope) const {
  const Scalar v = value(scope);
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  throw wrong_kind(what_, "true or false", v, mark_);
}

}  // namespace gpuplan
