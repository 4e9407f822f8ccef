// Syntax back as text, the same for every way to write it.
#include "estimator/spec/syntax_text.h"
#include "estimator/base/list_text.h"
#include "estimator/spec/canonical.h"

namespace gpuplan {

std::string Expression::text(const Term& term) {
  switch (term.op) {
    case Op::literal: return to_string(term.literal);
    case Op::param:
    case Op::var: return term.name;
    case Op::negate: return "-" + text(term.operands[0]);
    case Op::logical_not: return "not " + text(term.operands[0]);
    case Op::minimum:
    case Op::maximum:
      return (term.op == Op::minimum ? "min(" : "max(") +
             joined(term.operands, ", ", [](const Term& t) { return text(t); }) + ")";
    default: break;
  }
  // Which parentheses stood there is not kept; all that there could be decide the value as those did.
  const auto operand = [](const Term& t) {
    const bool compound = t.operands.size() > 1 && t.op != Op::minimum && t.op != Op::maximum;
    return compound ? "(" + text(t) + ")" : text(t);
  };
  return operand(term.operands[0]) + " " + term.name + " " + operand(term.operands[1]);
}

std::string Expression::text() const {
  const bool name = root_.op == Op::param || root_.op == Op::var;
  return name ? "$" + root_.name : "${" + text(root_) + "}";
}

std::string Quantity::text() const {
  if (const Scalar* constant = std::get_if<Scalar>(&value_)) return to_string(*constant);
  return std::get<Expression>(value_).text();
}

std::string text_of(const ValueSyntax& value) {
  if (const Value* constant = std::get_if<Value>(&value.as)) return value_text(*constant);
  if (const Expression* expression = std::get_if<Expression>(&value.as)) return expression->text();
  const auto& items = std::get<std::vector<ValueSyntax>>(value.as);
  return "(" + joined(items, ", ", [](const ValueSyntax& item) { return text_of(item); }) +
         (items.size() == 1 ? ",)" : ")");
}

std::string text_of(const CallSyntax& call) {
  const auto argument = [](const ArgumentSyntax& a) { return (a.name.empty() ? "" : a.name + "=") + text_of(a.value); };
  return call.type + "(" + joined(call.arguments, ", ", argument) + ")";
}

}  // namespace gpuplan
