#include <algorithm>
#include <limits>

#include "estimator/base/integers.h"
#include "estimator/spec/expression.h"

namespace gpuplan {
namespace {

// Python's: towards minus infinity.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) return checked_mul(a, -1);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t checked_sub(std::int64_t a, std::int64_t b) {
  // -b fits unless b is the least integer; a - least is (a + 1) + greatest.
  if (b != std::numeric_limits<std::int64_t>::min()) return checked_add(a, -b);
  return checked_add(checked_add(a, 1), std::numeric_limits<std::int64_t>::max());
}

std::int64_t as_integer(const Scalar& value, const std::string& name, const SourceMark& mark) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return *i;
  throw Error("\"" + name + "\" needs integers, not " + to_string(value)).at(mark);
}

bool as_boolean(const Scalar& value, const std::string& name, const SourceMark& mark) {
  if (const auto* b = std::get_if<bool>(&value)) return *b;
  throw Error("\"" + name + "\" needs true or false, not " + to_string(value)).at(mark).help("compare a number: x > 0");
}

}  // namespace

Scalar Expression::evaluate(const Term& term, const Scope& scope) {
  switch (term.op) {
    case Op::literal: return term.literal;
    case Op::param: return scope.params[term.slot];
    case Op::var: return scope.vars[term.slot];
    default: break;
  }
  try {
    return compute(term, scope);
  } catch (Error& error) {
    error.at(term.mark);
    throw;
  }
}

Scalar Expression::compute(const Term& term, const Scope& scope) {
  const auto integer = [&](std::size_t i) {
    return as_integer(evaluate(term.operands[i], scope), term.name, term.mark);
  };
  const auto boolean = [&](std::size_t i) {
    return as_boolean(evaluate(term.operands[i], scope), term.name, term.mark);
  };
  const auto divisor = [&] {
    const std::int64_t d = integer(1);
    if (d == 0) throw Error("division by zero").at(term.mark);
    return d;
  };
  const auto same = [&] {
    const Scalar left = evaluate(term.operands[0], scope);
    const Scalar right = evaluate(term.operands[1], scope);
    if (left.index() != right.index())
      throw Error("\"" + term.name + "\" compares " + kind_of(left) + " with " + kind_of(right)).at(term.mark);
    return left == right;
  };
  const auto extremum = [&](auto better) {
    std::int64_t best = integer(0);
    for (std::size_t i = 1; i < term.operands.size(); ++i) best = better(best, integer(i));
    return best;
  };
  switch (term.op) {
    case Op::negate: return checked_mul(integer(0), -1);
    case Op::logical_not: return !boolean(0);
    case Op::add: return checked_add(integer(0), integer(1));
    case Op::subtract: return checked_sub(integer(0), integer(1));
    case Op::multiply: return checked_mul(integer(0), integer(1));
    case Op::divide: return floor_divide(integer(0), divisor());
    case Op::modulo: return floor_modulo(integer(0), divisor());
    case Op::equal: return same();
    case Op::different: return !same();
    case Op::less: return integer(0) < integer(1);
    case Op::less_equal: return integer(0) <= integer(1);
    case Op::greater: return integer(0) > integer(1);
    case Op::greater_equal: return integer(0) >= integer(1);
    case Op::logical_and: return boolean(0) && boolean(1);
    case Op::logical_or: return boolean(0) || boolean(1);
    case Op::minimum: return extremum([](std::int64_t a, std::int64_t b) { return std::min(a, b); });
    case Op::maximum: return extremum([](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    case Op::literal:
    case Op::param:
    case Op::var: break;
  }
  return term.literal;
}

}  // namespace gpuplan
