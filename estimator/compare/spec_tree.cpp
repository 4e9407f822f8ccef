#include "estimator/compare/spec_tree.h"

#include <algorithm>
#include <charconv>

#include "estimator/base/dtype.h"
#include "estimator/base/list_text.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/syntax_text.h"

namespace gpuplan {

namespace {

SpecPart leaf(std::string key, std::string value, const SourceMark& mark, std::string otherwise = {}) {
  SpecPart part;
  part.key = std::move(key);
  part.text = value;
  part.value = std::move(value);
  part.otherwise = std::move(otherwise);
  part.mark = part.whole = mark;
  return part;
}

SpecPart group(std::string key, const SourceMark& mark) { return leaf(std::move(key), "", mark); }

std::string list_text(const std::vector<std::string>& words) { return "[" + joined(words) + "]"; }

// A default as Python writes it, in the words of value_text: "1e-5" is "1e-05" there.
std::string default_text(std::string_view text) {
  double real = 0;
  const char* const end = text.data() + text.size();
  const bool is_real = text.find_first_of(".e") != std::string_view::npos;
  const auto [last, problem] = std::from_chars(text.data(), end, real);
  return is_real && problem == std::errc() && last == end ? to_string(Scalar{real}) : std::string(text);
}

// kernel_size=(3, 3) is kernel_size=3.
std::string argument_text(const ValueSyntax& value, const ParameterDef* parameter) {
  std::string text = text_of(value);
  if (parameter == nullptr || parameter->type != ParameterType::pair) return text;
  const std::size_t comma = text.find(", ");
  if (!text.starts_with('(') || comma == std::string::npos) return text;
  const std::string first = text.substr(1, comma - 1);
  return text == "(" + first + ", " + first + ")" ? first : text;
}

class TreeMaker {
 public:
  TreeMaker(const SpecSyntax& spec, Catalog catalog)
      : spec_(spec), catalog_(catalog), is_called_(spec.blocks.size(), 0) {}

  SpecPart entries(std::string key, const ListSyntax& list, const EntryOrder& order = {}) {
    SpecPart part = group(std::move(key), list.mark);
    part.list = true;
    for (const EntrySyntax& e : list.entries) part.entries.push_back(entry(e));
    if (!order.made.empty()) part.parts.push_back(leaf("order", list_text(order.made), list.mark));
    if (order.registered != order.made)
      part.parts.push_back(leaf("order.registered", list_text(order.registered), list.mark));
    return part;
  }

  SpecPart call(std::string key, const CallSyntax& syntax) const {
    SpecPart part = leaf(std::move(key), syntax.type, syntax.mark);
    part.text = text_of(syntax);
    const LayerDef* const def = find_layer(catalog_, syntax.type);
    std::size_t position = 0;
    for (const ArgumentSyntax& a : syntax.arguments) {
      const ParameterDef* const parameter = parameter_of(def, a, position);
      const std::string text = argument_text(a.value, parameter);
      const std::string name = parameter != nullptr ? std::string(parameter->name)
                               : a.name.empty()     ? "argument " + std::to_string(position)
                                                    : a.name;
      if (parameter != nullptr && parameter->variadic && join(part, name, text)) continue;
      const std::string otherwise = parameter != nullptr ? default_text(parameter->default_value) : "";
      if (otherwise.empty() || (text != otherwise && text != "'" + otherwise + "'"))
        part.parts.push_back(leaf(name, text, a.value.mark, otherwise.empty() ? "" : otherwise + " (default)"));
    }
    return part;
  }

  /// The blocks that are called, in the order in which they are come across.
  SpecPart called_blocks() {
    SpecPart part = group("blocks", {});
    for (std::size_t i = 0; i < called_.size(); ++i) {  // those of blocks add to it
      const BlockSyntax& block = spec_.blocks[called_[i]];
      SpecPart one = group(block.name, block.mark);
      one.text = "a block";
      for (const ParamSyntax& p : block.params)
        one.parts.push_back(
            leaf(p.name, p.otherwise ? p.otherwise->text() : "required", p.otherwise ? p.otherwise->mark() : p.mark));
      SpecPart layers = entries("layers", block.layers, block.order);
      layers.in_path = false;
      one.parts.push_back(std::move(layers));
      part.parts.push_back(std::move(one));
    }
    return part;
  }

 private:
  static const ParameterDef* parameter_of(const LayerDef* def, const ArgumentSyntax& a, std::size_t& position) {
    if (def == nullptr) {
      ++position;
      return nullptr;
    }
    const std::vector<ParameterDef>& all = def->parameters;
    if (!a.name.empty()) {
      const auto found = std::ranges::find(all, std::string_view(a.name), &ParameterDef::name);
      return found == all.end() ? nullptr : &*found;
    }
    if (position >= all.size()) return nullptr;
    return all[position].variadic ? &all[position] : &all[position++];
  }

  // View(2, 3) is View((2, 3)).
  static bool join(SpecPart& call, const std::string& name, const std::string& text) {
    if (call.parts.empty() || call.parts.back().key != name) return false;
    SpecPart& part = call.parts.back();
    part.value += ", " + text;
    part.text = part.value;
    return true;
  }

  SpecPart entry(const EntrySyntax& syntax) {
    SpecPart part = std::visit([&](const auto& what) { return of(what); }, syntax.what);
    part.key = syntax.name;
    part.whole = syntax.mark;
    if (part.mark.line == 0) part.mark = syntax.mark;
    for (SpecPart& inner : part.parts)  // a few words of the syntax are kept without their places
      if (inner.mark.line == 0) inner.mark = inner.whole = part.whole;
    if (syntax.condition) part.parts.push_back(leaf("if", syntax.condition->text(), syntax.condition->mark()));
    if (!syntax.from.empty()) part.parts.push_back(leaf("from", list_text(syntax.from), syntax.from_marks.front()));
    if (!syntax.tie.empty()) part.parts.push_back(leaf("tie", syntax.tie, syntax.tie_mark));
    add_switch(part, "frozen", syntax.frozen);
    if (syntax.reentrant)
      part.parts.push_back(leaf("checkpoint", "reentrant", syntax.checkpoint->mark(), "false"));
    else
      add_switch(part, "checkpoint", syntax.checkpoint);
    add_switch(part, "keep", syntax.keep);
    if (syntax.autocast && syntax.autocast->text() != "true")
      part.parts.push_back(leaf("autocast", syntax.autocast->text(), syntax.autocast->mark(), "true"));
    if (syntax.grad && syntax.grad->text() != "true")
      part.parts.push_back(leaf("grad", syntax.grad->text(), syntax.grad->mark(), "true"));
    if (syntax.when) part.parts.push_back(leaf("when", *syntax.when == Mode::train ? "train" : "infer", syntax.mark));
    return part;
  }

  static void add_switch(SpecPart& part, const char* key, const std::optional<Quantity>& value) {
    if (value) add_switch(part, key, *value);
  }
  static void add_switch(SpecPart& part, const char* key, const Quantity& value) {
    if (value.text() != "false") part.parts.push_back(leaf(key, value.text(), value.mark(), "false"));
  }

  SpecPart of(const CallSyntax& syntax) const { return call("", syntax); }

  SpecPart of(const BlockCallSyntax& syntax) {
    const BlockSyntax& block = spec_.blocks[syntax.block];
    if (is_called_[syntax.block] == 0) called_.push_back(syntax.block);
    is_called_[syntax.block] = 1;
    SpecPart part = leaf("", "block " + block.name, syntax.mark);
    if (syntax.repeat) part.parts.push_back(leaf("repeat", syntax.repeat->text(), syntax.repeat->mark()));
    if (syntax.loop) add_switch(part, "loop", *syntax.loop);
    const std::pair<const char*, const std::vector<GivenParam>*> lists[] = {
        {"", &syntax.with}, {"first.", &syntax.first}, {"last.", &syntax.last}};
    for (const auto& list : lists)
      for (const GivenParam& given : *list.second)
        part.parts.push_back(leaf(list.first + block.params[given.param].name, given.value.text(), given.value.mark()));
    return part;
  }

  SpecPart of(const InlineBlockSyntax& syntax) {
    SpecPart part = leaf("", "block " + syntax.block, {});
    add_body(part, syntax.layers, syntax.order);
    return part;
  }

  SpecPart of(const SequentialSyntax& syntax) {
    SpecPart part = leaf("", "layers", {});
    add_switch(part, "loop", syntax.loop);
    add_body(part, syntax.layers, {});
    return part;
  }

  SpecPart of(const ResidualSyntax& syntax) {
    SpecPart part = leaf("", "residual", {});
    add_switch(part, "inplace", syntax.inplace);
    if (syntax.shortcut_if)
      part.parts.push_back(leaf("shortcut.if", syntax.shortcut_if->text(), syntax.shortcut_if->mark()));
    if (syntax.shortcut_first)
      part.parts.push_back(leaf("shortcut, before the body", "true", syntax.shortcut.mark, "false"));
    add_body(part, syntax.body, {});
    if (!syntax.shortcut.entries.empty()) part.parts.push_back(entries("shortcut", syntax.shortcut));
    return part;
  }

  SpecPart of(const ParallelSyntax& syntax) {
    SpecPart part = leaf("", "parallel", {});
    const char* const join = syntax.join == Join::cat ? "cat" : syntax.join == Join::add ? "add" : "mul";
    part.parts.push_back(leaf("join", join, {}));
    if (syntax.join == Join::cat) part.parts.push_back(leaf("dim", syntax.dim.text(), syntax.dim.mark()));
    SpecPart branches = group("branches", {});
    branches.list = true;
    branches.in_path = false;
    for (const ParallelSyntax::Branch& branch : syntax.branches) {
      SpecPart one = entries(branch.name, branch.layers);
      one.mark = one.whole = branch.mark;
      one.text = "a branch";
      branches.entries.push_back(std::move(one));
    }
    part.parts.push_back(std::move(branches));
    return part;
  }

  void add_body(SpecPart& part, const ListSyntax& list, const EntryOrder& order) {
    SpecPart body = entries("body", list, order);
    body.in_path = false;
    part.parts.push_back(std::move(body));
  }

  const SpecSyntax& spec_;
  Catalog catalog_;
  std::vector<std::size_t> called_;
  std::vector<char> is_called_;  // by block
};

SpecPart vars_tree(const SpecSyntax& spec, const std::vector<Variable>& settings) {
  SpecPart part = group("vars", {});
  for (const VariableSyntax& var : spec.vars) {
    const auto set = std::ranges::find(settings, var.name, &Variable::name);
    part.parts.push_back(set == settings.end() ? leaf(var.name, var.value.text(), var.value.mark())
                                               : leaf(var.name, std::to_string(set->value), {}));
  }
  return part;
}

SpecPart inputs_tree(const SpecSyntax& spec) {
  SpecPart part = group("inputs", {});
  part.list = true;
  part.in_path = spec.inputs.size() > 1 || spec.inputs.front().name != "input";
  for (const InputSyntax& input : spec.inputs) {
    SpecPart one = group(input.name, input.mark);
    one.text = "an input";
    std::vector<std::string> sizes;
    for (const Quantity& size : input.shape) sizes.push_back(size.text());
    one.parts.push_back(leaf("shape", list_text(sizes), input.shape_mark));
    one.parts.push_back(leaf("dtype", std::string(name_of(input.dtype)), input.mark));
    if (input.requires_grad.text() != "false")
      one.parts.push_back(leaf("requires_grad", input.requires_grad.text(), input.requires_grad.mark(), "false"));
    part.entries.push_back(std::move(one));
  }
  return part;
}

SpecPart lora_tree(const LoraSyntax& lora) {
  SpecPart part = leaf("lora", "lora", lora.mark);
  part.parts = {leaf("rank", lora.rank.text(), lora.rank.mark()), leaf("alpha", lora.alpha.text(), lora.alpha.mark()),
                leaf("dropout", lora.dropout.text(), lora.dropout.mark()),
                leaf("targets", list_text(lora.targets), lora.mark)};
  return part;
}

}  // namespace

SpecPart spec_tree(const SpecSyntax& spec, const std::vector<Variable>& settings, Catalog catalog) {
  TreeMaker maker(spec, catalog);
  SpecPart root = group("", {});
  root.parts.push_back(vars_tree(spec, settings));
  root.parts.push_back(inputs_tree(spec));
  SpecPart layers = maker.entries("layers", spec.layers, spec.order);
  SpecPart loss = spec.losses.entries.empty() ? maker.call("loss", spec.loss) : maker.entries("loss", spec.losses);
  if (loss.list) loss.text = spec.own_loss ? "a list of losses of the model's own" : "a list of losses";
  root.parts.push_back(maker.called_blocks());
  root.parts.push_back(std::move(layers));
  if (spec.lora) root.parts.push_back(lora_tree(*spec.lora));
  root.parts.push_back(std::move(loss));
  return root;
}

}  // namespace gpuplan
