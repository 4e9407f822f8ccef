// The values and expressions of a spec: `$x` and `${...}` over integers and booleans.
//
//   or, and, not;  == != < <= > >=;  + -;  * // %;  unary -;  ( );  min(a, b, ...) max(a, b, ...)
//
// Precedence, // and % are Python's (floor division; the remainder has the divisor's sign). Arithmetic
// is checked. A real number can be passed on (`with: {p: 0.1}`, then `Dropout($p)`), not computed with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/spec/cursor.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

using Scalar = std::variant<std::int64_t, bool, double>;

/// "an integer", "true or false", "a real number".
std::string kind_of(const Scalar& value);
std::string to_string(const Scalar& value);

/// What names mean where an expression stands: a block's parameters, then the model's variables.
struct Names {
  std::span<const std::string> params;
  std::span<const std::string> vars;
};

/// The values of Names, in the same order.
struct Scope {
  std::span<const Scalar> params;
  std::span<const Scalar> vars;
};

class Expression {
 public:
  /// Reads `$name` or `${...}` at the cursor, which stands on the `$`. Throws Error for a syntax error
  /// or an unknown name.
  static Expression read(Cursor& cursor, const Names& names);

  /// Throws Error on overflow, division by zero, or an operand of the wrong kind.
  Scalar evaluate(const Scope& scope) const { return evaluate(root_, scope); }
  /// As a spec may write it, the same for any spacing and needless parentheses: "$c", "${4*c + 1}".
  std::string text() const;

 private:
  friend class ExpressionReader;
  enum class Op : std::uint8_t {
    literal,
    param,
    var,
    negate,
    logical_not,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    equal,
    different,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    minimum,
    maximum
  };
  struct Term {
    Op op = Op::literal;
    Scalar literal;
    std::size_t slot = 0;
    std::string name;  // as written: the variable or the operator
    SourceMark mark;
    std::vector<Term> operands;
  };

  static Scalar evaluate(const Term& term, const Scope& scope);
  static Scalar compute(const Term& term, const Scope& scope);
  static std::string text(const Term& term);

  Term root_;
};

/// An integer, a boolean, a real number or an expression, as a YAML scalar gives it.
class Quantity {
 public:
  Quantity() = default;
  explicit Quantity(Scalar constant) : value_(constant) {}
  /// `what` names the place for messages: "repeat". Throws Error when the node is anything else;
  /// yes, no, on and off are not booleans, quoted text is neither number nor boolean.
  static Quantity read(const YamlNode& node, const Names& names, const std::string& what);

  /// Each throws Error when the value is of another kind; `size` also when it is below 1.
  Scalar value(const Scope& scope) const;
  std::int64_t integer(const Scope& scope) const;
  std::int64_t size(const Scope& scope) const;
  bool boolean(const Scope& scope) const;

  const SourceMark& mark() const { return mark_; }
  /// As Expression::text; a constant as to_string.
  std::string text() const;

 private:
  std::variant<Scalar, Expression> value_ = Scalar{std::int64_t{0}};
  std::string what_;
  SourceMark mark_;
};

/// Reads an integer or real literal ("-3", "1e-5", ".5") at the cursor, which stands on its first
/// character. Throws Error when it does not fit or has leading zeros.
Scalar read_number(Cursor& cursor);
/// Whether a number begins at the cursor.
bool at_number(const Cursor& cursor);
/// Whether `word` is yes, no, on or off in any case: YAML 1.1's other booleans.
bool looks_boolean(std::string_view word);

}  // namespace gpuplan
