#include "estimator/spec/expression.h"

#include <algorithm>
#include <array>

#include "estimator/spec/limits.h"

namespace gpuplan {
// Recursive descent, one function per level of precedence; depth_ bounds the recursion.
class ExpressionReader {
 public:
  ExpressionReader(Cursor& cursor, const Names& names) : cursor_(cursor), names_(names) {}

  Expression::Term braces() {
    const std::size_t open = cursor_.at();
    cursor_.skip(2);  // ${
    Expression::Term term = disjunction();
    cursor_.skip_blanks();
    if (!cursor_.take("}")) unexpected(open, "}");
    return term;
  }

  Expression::Term variable() {
    const std::size_t from = cursor_.at();
    const std::string name(cursor_.take_word());
    Expression::Term term;
    term.name = name;
    term.mark = cursor_.mark_since(from);
    if (const auto slot = find(names_.params, name); slot < names_.params.size()) {
      term.op = Expression::Op::param;
      term.slot = slot;
    } else if (const auto var = find(names_.vars, name); var < names_.vars.size()) {
      term.op = Expression::Op::var;
      term.slot = var;
    } else {
      refuse_unknown(name, term.mark);
    }
    return term;
  }

 private:
  using Op = Expression::Op;
  using Term = Expression::Term;
  struct Binary {
    std::string_view token;
    Op op;
  };

  static std::size_t find(std::span<const std::string> names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }

  [[noreturn]] void refuse_unknown(const std::string& name, const SourceMark& mark) const {
    std::vector<std::string> known(names_.params.begin(), names_.params.end());
    known.insert(known.end(), names_.vars.begin(), names_.vars.end());
    Error error("unknown variable \"" + name + "\"" + did_you_mean(name, known));
    error.at(mark).label("not in vars: or in this block's params:");
    std::string list;
    for (std::size_t i = 0; i < std::min<std::size_t>(known.size(), 20); ++i) list += (i > 0 ? ", " : "") + known[i];
    if (!list.empty()) error.help("known here: " + list);
    throw error;
  }

  [[noreturn]] void unexpected(std::size_t open, std::string_view closing) const {
    const char next = cursor_.peek();
    if (cursor_.done())
      throw Error("an expression without its closing " + std::string(closing))
          .at(cursor_.mark(open, 1))
          .label("opened here");
    Error error("unexpected '" + std::string(1, next) + "' in an expression");
    error.at(cursor_.mark_here());
    if (next == '/') error.label("integer division is //");
    if (next == '$') error.label("inside ${ } a name has no $");
    if (next == '=') error.label("equality is ==");
    if (next == '.' || next == '"' || next == '\'') error.label("expressions have integers, true and false only");
    throw error.help("expressions have + - * // % min max, comparisons, and, or, not and parentheses");
  }

  bool take_word(std::string_view word) {
    cursor_.skip_blanks();
    if (is_word(cursor_.peek(word.size()))) return false;
    return cursor_.take(word);
  }

  Term binary(Op op, std::string_view name, const SourceMark& mark, Term left, Term right) const {
    Term term;
    term.op = op;
    term.name = name;
    term.mark = mark;
    term.operands.push_back(std::move(left));
    term.operands.push_back(std::move(right));
    return term;
  }

  // left-associative chain of `operators` over `next`
  template <std::size_t N>
  Term chain(const std::array<Binary, N>& operators, Term (ExpressionReader::*next)()) {
    Term left = (this->*next)();
    for (;;) {
      const Binary* found = nullptr;
      cursor_.skip_blanks();
      const std::size_t from = cursor_.at();
      for (const Binary& b : operators) {
        const bool word = is_word_start(b.token.front());
        if (word ? take_word(b.token) : cursor_.take(b.token)) {
          found = &b;
          break;
        }
      }
      if (found == nullptr) return left;
      const SourceMark mark = cursor_.mark_since(from);
      grow(mark);  // a long chain leans left: as deep to evaluate as it is long
      left = binary(found->op, found->token, mark, std::move(left), (this->*next)());
    }
  }

  Term disjunction() { return chain<1>({{{"or", Op::logical_or}}}, &ExpressionReader::conjunction); }
  Term conjunction() { return chain<1>({{{"and", Op::logical_and}}}, &ExpressionReader::negation); }

  Term negation() {
    cursor_.skip_blanks();
    const std::size_t from = cursor_.at();
    if (!take_word("not")) return comparison();
    return unary(Op::logical_not, "not", cursor_.mark_since(from), &ExpressionReader::negation);
  }

  Term comparison() {
    return chain<6>({{{"==", Op::equal},
                      {"!=", Op::different},
                      {"<=", Op::less_equal},
                      {">=", Op::greater_equal},
                      {"<", Op::less},
                      {">", Op::greater}}},
                    &ExpressionReader::sum);
  }

  Term sum() { return chain<2>({{{"+", Op::add}, {"-", Op::subtract}}}, &ExpressionReader::product); }

  Term product() {
    return chain<3>({{{"*", Op::multiply}, {"//", Op::divide}, {"%", Op::modulo}}}, &ExpressionReader::sign);
  }

  Term sign() {
    cursor_.skip_blanks();
    const std::size_t from = cursor_.at();
    if (cursor_.peek() != '-' || at_number(cursor_)) return primary();
    cursor_.skip();
    return unary(Op::negate, "-", cursor_.mark_since(from), &ExpressionReader::sign);
  }

  Term unary(Op op, std::string_view name, const SourceMark& mark, Term (ExpressionReader::*operand)()) {
    grow(mark);
    Term term;
    term.op = op;
    term.name = name;
    term.mark = mark;
    term.operands.push_back((this->*operand)());
    return term;
  }

  Term primary() {
    cursor_.skip_blanks();
    const std::size_t from = cursor_.at();
    if (cursor_.peek() == '(') return parenthesis();
    if (at_number(cursor_)) return literal(read_number(cursor_), from);
    if (take_word("True") || take_word("true")) return literal(true, from);
    if (take_word("False") || take_word("false")) return literal(false, from);
    if (take_word("min")) return extremum(Op::minimum, from);
    if (take_word("max")) return extremum(Op::maximum, from);
    if (is_word_start(cursor_.peek())) return variable();
    if (cursor_.done() || cursor_.peek() == '}' || cursor_.peek() == ')')
      throw Error("an expression ends where a value is expected").at(cursor_.mark_here());
    unexpected(from, "}");
  }

  Term literal(Scalar value, std::size_t from) const {
    if (std::holds_alternative<double>(value))
      throw Error("a real number in an expression").at(cursor_.mark_since(from)).label("integers only");
    Term term;
    term.literal = value;
    term.name = cursor_.since(from);
    term.mark = cursor_.mark_since(from);
    return term;
  }

  Term parenthesis() {
    const std::size_t open = cursor_.at();
    grow(cursor_.mark_here());
    cursor_.skip();
    Term term = disjunction();
    cursor_.skip_blanks();
    if (!cursor_.take(")")) unexpected(open, ")");
    return term;
  }

  Term extremum(Op op, std::size_t from) {
    Term term;
    term.op = op;
    term.name = cursor_.since(from);
    term.mark = cursor_.mark_since(from);
    grow(term.mark);
    cursor_.skip_blanks();
    const std::size_t open = cursor_.at();
    if (!cursor_.take("("))
      throw Error(term.name + " takes its values in parentheses").at(cursor_.mark_here()).label("expected (");
    do {
      term.operands.push_back(disjunction());
      cursor_.skip_blanks();
    } while (cursor_.take(","));
    if (!cursor_.take(")")) unexpected(open, ")");
    return term;
  }

  void grow(const SourceMark& mark) {
    if (++depth_ > kMaxExpressionDepth)
      throw Error("an expression of more than " + std::to_string(kMaxExpressionDepth) + " operators").at(mark);
  }

  Cursor& cursor_;
  const Names& names_;
  int depth_ = 0;
};

Expression Expression::read(Cursor& cursor, const Names& names) {
  Expression expression;
  ExpressionReader reader(cursor, names);
  if (cursor.peek(1) == '{') {
    expression.root_ = reader.braces();
    return expression;
  }
  const std::size_t dollar = cursor.at();
  cursor.skip();
  if (!is_word_start(cursor.peek())) {
    Error error("a $ without a name");
    error.at(cursor.mark(dollar, 1)).label("expected $name or ${expression}");
    if (cursor.node().in_flow) error.help("inside { } and [ ] an expression is quoted: \"${...}\"");
    throw error;
  }
  expression.root_ = reader.variable();
  return expression;
}

}  // namespace gpuplan
