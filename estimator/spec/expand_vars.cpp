#include "estimator/spec/expand_vars.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/base/list_text.h"

namespace gpuplan {
namespace {

void check_settings(const SpecSyntax& spec, const std::vector<Variable>& settings) {
  std::vector<std::string> known;
  for (const VariableSyntax& var : spec.vars) known.push_back(var.name);
  for (const Variable& setting : settings) {
    if (std::find(known.begin(), known.end(), setting.name) != known.end()) continue;
    throw Error(spec.name + " has no variable \"" + setting.name + "\"" + did_you_mean(setting.name, known),
                ErrorKind::usage)
        .help(known.empty() ? "it has no vars:" : "it has " + joined(known));
  }
}

}  // namespace

std::vector<Scalar> evaluate_vars(const SpecSyntax& spec, const std::vector<Variable>& settings) {
  check_settings(spec, settings);
  std::vector<Scalar> values;
  values.reserve(spec.vars.size());
  for (const VariableSyntax& var : spec.vars) {
    Scalar value = var.value.value({{}, values});
    if (std::holds_alternative<double>(value))
      throw Error("the variable " + var.name + " must be an integer or boolean, not " + to_string(value))
          .at(var.value.mark())
          .help("a block's params may be real numbers");
    for (const Variable& setting : settings) {
      if (setting.name != var.name) continue;
      if (std::holds_alternative<bool>(value) && (setting.value < 0 || setting.value > 1))
        throw Error("the variable " + var.name + " is a boolean: set it to 0 or 1", ErrorKind::usage);
      value = std::holds_alternative<bool>(value) ? Scalar{setting.value != 0} : Scalar{setting.value};
    }
    values.push_back(value);
  }
  return values;
}

Input evaluate_input(const InputSyntax& syntax, const Scope& scope) {
  Input input;
  input.name = syntax.name;
  input.dtype = syntax.dtype;
  input.requires_grad = syntax.requires_grad.boolean(scope);
  input.mark = syntax.mark;
  std::int64_t elements = 1;
  for (const Quantity& size : syntax.shape) {
    input.shape.push_back(size.size(scope));
    try {
      elements = checked_mul(elements, input.shape.back());
    } catch (Error& error) {
      throw error.at(syntax.shape_mark);
    }
  }
  return input;
}

}  // namespace gpuplan
