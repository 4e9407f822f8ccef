#include "estimator/spec/lora.h"

#include <algorithm>

#include "estimator/spec/cursor.h"
#include "estimator/spec/keys.h"
#include "estimator/spec/limits.h"

namespace gpuplan {
namespace {

// A module's name or the end of its path, where * and ? stand for characters of it.
std::string read_target(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar)
    throw Error("a target of lora must be a module's name, not " + describe(node)).at(node.mark);
  const auto belongs = [](char c) { return is_word(c) || c == '.' || c == '*' || c == '?'; };
  if (node.text == kAllLinear) return node.text;
  if (node.text.empty() || node.text.size() > kMaxNameBytes || !std::ranges::all_of(node.text, belongs))
    throw Error(describe(node) + " cannot be a module's name")
        .at(node.mark)
        .label("letters, digits, underscores and dots; * and ? stand for any");
  return node.text;
}

double real(const Quantity& quantity, const Scope& scope, std::string_view what) {
  const Scalar value = quantity.value(scope);
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&value)) return static_cast<double>(*i);
  throw Error(std::string(what) + " must be a number, not " + to_string(value)).at(quantity.mark());
}

}  // namespace

LoraSyntax read_lora(const YamlNode& node, const Names& names) {
  expect_map(node, "lora");
  expect_keys(node, "lora", {"rank", "alpha", "dropout", "targets"});
  LoraSyntax lora;
  lora.mark = node.mark;
  const auto read = [&](const char* key, Quantity& into) {
    if (const YamlNode* value = node.find(key)) into = Quantity::read(*value, names, key);
  };
  read("rank", lora.rank);
  read("alpha", lora.alpha);
  read("dropout", lora.dropout);
  const YamlNode& targets = require(node, "lora", "targets");
  expect_list(targets, "targets");
  if (targets.children.empty()) throw Error("lora without a target").at(targets.mark);
  if (targets.children.size() > kMaxLoraTargets)
    throw Error("more than " + std::to_string(kMaxLoraTargets) + " targets").at(targets.mark);
  for (const YamlNode* target : targets.children) {
    std::string name = read_target(*target);
    if (std::ranges::find(lora.targets, name) != lora.targets.end())
      throw Error("\"" + name + "\" is named twice").at(target->mark);
    lora.targets.push_back(std::move(name));
    lora.target_marks.push_back(target->mark);
  }
  return lora;
}

Lora evaluate_lora(const LoraSyntax& syntax, const Scope& scope) {
  Lora lora;
  lora.mark = syntax.mark;
  lora.targets = syntax.targets;
  lora.target_marks = syntax.target_marks;
  lora.rank = syntax.rank.size(scope);
  lora.alpha = real(syntax.alpha, scope, "alpha");
  lora.dropout = real(syntax.dropout, scope, "dropout");
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    throw Error("dropout is a probability").at(syntax.dropout.mark()).label("expected 0 to below 1");
  return lora;
}

}  // namespace gpuplan
