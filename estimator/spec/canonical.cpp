#include "estimator/spec/canonical.h"
#include "estimator/spec/construction_steps.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/base/list_text.h"
#include "estimator/spec/cursor.h"
#include "estimator/spec/expression.h"

namespace gpuplan {
namespace {

bool is_plain_word(std::string_view text) {
  constexpr std::array<std::string_view, 8> kSpecial = {"null", "Null", "NULL", "true", "True", "false", "False", "_"};
  return is_identifier(text) && !looks_boolean(text) && text != "None" &&
         std::find(kSpecial.begin(), kSpecial.end(), text) == kSpecial.end();
}

// As the arguments of a call are quoted (call.h).
std::string call_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string yaml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Text of the user's that is not a call: a name, a title.
std::string yaml_text(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '.'; });
  return plain && is_plain_word(text.substr(0, text.find('.'))) ? text : yaml_quoted(text);
}

std::string module_name(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos ? name : yaml_text(name);
}

struct CallValue {
  std::string operator()(None) const { return "None"; }
  std::string operator()(Inferred) const { return "_"; }
  std::string operator()(bool b) const { return b ? "True" : "False"; }
  std::string operator()(std::int64_t i) const { return std::to_string(i); }
  std::string operator()(double d) const { return to_string(Scalar{d}); }
  std::string operator()(const std::string& text) const { return is_plain_word(text) ? text : call_quoted(text); }
  std::string operator()(const std::vector<Value>& items) const {
    return "(" + joined(items, ", ", value_text) + (items.size() == 1 ? ",)" : ")");
  }
};

// A call as a YAML scalar: plain unless YAML would read it otherwise.
std::string call_text(const LayerCall& call) {
  const auto argument = [](const Argument& a) { return (a.name.empty() ? "" : a.name + "=") + value_text(a.value); };
  const std::string out = call.type + "(" + joined(call.arguments, ", ", argument) + ")";
  const bool plain =
      out.find(": ") == std::string::npos && out.find(" #") == std::string::npos && out.find('\n') == std::string::npos;
  return plain ? out : yaml_quoted(out);
}

std::string names_text(const std::vector<std::string>& names) { return "[" + joined(names) + "]"; }

std::string order_text(const EntryOrder& order) {
  if (order.made == order.registered) return names_text(order.made);
  return "{made: " + names_text(order.made) + ", registered: " + names_text(order.registered) + "}";
}

class Writer {
 public:
  std::string text() && { return std::move(out_); }

  void line(int indent, std::string_view text) {
    out_.append(static_cast<std::size_t>(indent), ' ').append(text) += '\n';
  }

  void body(const Body& body, int indent) {
    for (const Node& n : body) node(n, indent);
  }

  // "key:" and a list below it; an empty one on the line itself.
  void list(int indent, const std::string& key, const Body& entries) {
    line(indent, entries.empty() ? key + " []" : key);
    body(entries, indent + 2);
  }

 private:
  static bool is_simple(const Node& node) {
    return std::holds_alternative<LayerCall>(node.what) && node.from.empty() && node.tie.empty() && !node.frozen &&
           !node.keep && !node.when && node.autocast && node.grad;
  }

  void node(const Node& node, int indent) {
    if (is_simple(node)) {
      const std::string call = call_text(std::get<LayerCall>(node.what));
      if (!node.named) return line(indent, "- " + call);
      if (!is_entry_word(node.name)) return line(indent, "- " + module_name(node.name) + ": " + call);
    }
    prefix_ = "- ";  // before the entry's first key
    if (node.named) key(indent, "name: " + module_name(node.name));
    if (node.from.size() == 1) key(indent, "from: " + node.from.front());
    if (node.from.size() > 1) key(indent, "from: " + names_text(node.from));
    if (!node.tie.empty()) key(indent, "tie: " + node.tie);
    if (node.frozen) key(indent, "frozen: true");
    if (node.checkpoint) key(indent, node.reentrant ? "checkpoint: reentrant" : "checkpoint: true");
    if (node.keep) key(indent, "keep: true");
    if (!node.autocast) key(indent, "autocast: false");
    if (!node.grad) key(indent, "grad: false");
    if (node.when) key(indent, *node.when == Mode::train ? "when: train" : "when: infer");
    std::visit([&](const auto& what) { write(what, indent); }, node.what);
  }

  void write(const LayerCall& call, int indent) { key(indent, "op: " + call_text(call)); }
  void write(const Block& block, int indent) {
    key(indent, "block: " + yaml_text(block.block));
    if (!block.order.empty()) key(indent, "order: " + order_text(block.order));
    list(indent + 2, "layers:", block.body);
  }
  void write(const Repeat& repeat, int indent) {
    if (repeat.loop) key(indent, "loop: true");
    key(indent, repeat.items.empty() ? "layers: []" : "layers:");
    body(repeat.items, indent + 4);
  }
  void write(const Residual& residual, int indent) {
    key(indent, "residual:");
    if (residual.inplace) line(indent + 4, "inplace: true");
    const bool shortcut = !residual.shortcut.empty();
    if (shortcut && residual.shortcut_first) list(indent + 4, "shortcut:", residual.shortcut);
    list(indent + 4, "body:", residual.body);
    if (shortcut && !residual.shortcut_first) list(indent + 4, "shortcut:", residual.shortcut);
  }
  void write(const Parallel& parallel, int indent) {
    constexpr std::array<std::string_view, 3> kJoins = {"cat", "add", "mul"};
    key(indent, "parallel:");
    line(indent + 4, "join: " + std::string(kJoins[static_cast<std::size_t>(parallel.join)]));
    if (parallel.join == Join::cat) line(indent + 4, "dim: " + std::to_string(parallel.dim));
    line(indent + 4, "branches:");
    for (const Parallel::Branch& branch : parallel.branches)
      list(indent + 6, branch.name.empty() ? "-" : module_name(branch.name) + ":", branch.body);
  }

  static bool is_entry_word(std::string_view name) {
    constexpr std::array<std::string_view, 21> kWords = {
        "op",     "block", "layers", "residual", "parallel",   "name", "if",    "from", "tie",      "when", "frozen",
        "repeat", "with",  "first",  "last",     "checkpoint", "keep", "order", "loop", "autocast", "grad"};
    return std::find(kWords.begin(), kWords.end(), name) != kWords.end();
  }

  void key(int indent, const std::string& text) {
    line(indent, prefix_ + text);
    prefix_ = "  ";
  }

  std::string out_;
  std::string prefix_;
};

std::string input_text(const Input& input) {
  std::string out = "{shape: [" + joined(input.shape, ", ", [](std::int64_t n) { return std::to_string(n); }) + "]";
  if (input.dtype != DType::fp32) out += ", dtype: " + std::string(name_of(input.dtype));
  if (input.requires_grad) out += ", requires_grad: true";
  return out + "}";
}

std::string lora_text(const Lora& lora) {
  return "{rank: " + std::to_string(lora.rank) + ", alpha: " + to_string(Scalar{lora.alpha}) +
         ", dropout: " + to_string(Scalar{lora.dropout}) + ", targets: [" + joined(lora.targets, ", ", yaml_quoted) +
         "]}";
}

}  // namespace

std::string value_text(const Value& value) { return std::visit(CallValue{}, value.as); }

std::string canonical_yaml(const Model& model) {
  Writer writer;
  writer.line(0, "gpuplan: 1");
  writer.line(0, "name: " + yaml_text(model.name));
  if (!model.notes.empty()) writer.line(0, "notes:");
  for (const Note& note : model.notes)
    writer.line(2, "- " + (note.of ? "{" + std::string(name_of(*note.of)) + ": " + yaml_quoted(note.text) + "}"
                                   : yaml_quoted(note.text)));
  if (!model.vars.empty()) writer.line(0, "vars:");
  for (const Variable& var : model.vars) writer.line(2, yaml_text(var.name) + ": " + std::to_string(var.value));
  if (model.inputs.size() == 1 && model.inputs.front().name == "input") {
    writer.line(0, "input: " + input_text(model.inputs.front()));
  } else {
    writer.line(0, "inputs:");
    for (const Input& input : model.inputs) writer.line(2, yaml_text(input.name) + ": " + input_text(input));
  }
  writer.list(0, "layers:", model.layers);
  if (!model.order.empty()) writer.line(0, "order: " + order_text(model.order));
  if (model.construction) writer.line(0, model.construction->empty() ? "construction: []" : "construction:");
  if (model.construction)
    for (const ConstructionStep& step : *model.construction)
      writer.line(2, "- {" + (step.after.empty() ? "" : "after: " + step.after + ", ") + "run: \"" +
                         construction_text(step) + "\"}");
  if (model.lora) writer.line(0, "lora: " + lora_text(*model.lora));
  if (model.losses.empty())
    writer.line(0, "loss: " + (model.loss.type == "mean" ? "mean" : call_text(model.loss)));
  else
    writer.list(0, model.own_loss ? "own_loss:" : "loss:", model.losses);
  return std::move(writer).text();
}

}  // namespace gpuplan
