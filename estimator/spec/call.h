// A layer call as a spec writes it, `Conv2d(_, $c, 3, padding=1)` or `{op: Conv2d, out_channels: 64}`,
// with the expressions in it not yet evaluated. The syntax is Python's for a constructor call with
// literal arguments; which keywords a layer has is the catalog's business.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "estimator/spec/expression.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct ValueSyntax {
  std::variant<Value, Expression, std::vector<ValueSyntax>> as;
  SourceMark mark;
};

struct ArgumentSyntax {
  std::string name;  // empty: positional
  ValueSyntax value;
  SourceMark name_mark;
};

struct CallSyntax {
  std::string type;  // without "nn." or "torch.nn."
  std::vector<ArgumentSyntax> arguments;
  SourceMark mark;
};

/// Reads a call from the text of a scalar. Throws Error for anything but a well-formed call.
CallSyntax read_call(const YamlNode& node, const Names& names);

/// Reads the bare name of a layer type (`op: Conv2d`); the arguments are to be added.
CallSyntax read_type(const YamlNode& node);
/// Whether the scalar has parentheses, hence is a call and not a bare type.
bool is_call(const YamlNode& node);

/// Reads an argument of the map form: a YAML scalar as it would stand in a call, or a list.
ValueSyntax read_value(const YamlNode& node, const Names& names);

/// The call with its expressions evaluated.
LayerCall evaluate(const CallSyntax& call, const Scope& scope);

}  // namespace gpuplan
