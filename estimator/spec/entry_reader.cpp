#include "estimator/spec/entry_reader.h"

#include <algorithm>
#include <array>

#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

// What an entry can be; one of these keys at most.
constexpr std::array<std::string_view, 5> kStructures = {"op", "block", "layers", "residual", "parallel"};
// What any entry may have besides.
constexpr std::array<std::string_view, 10> kModifiers = {"name",       "if",   "from", "tie",      "frozen",
                                                         "checkpoint", "keep", "when", "autocast", "grad"};
constexpr std::array<std::string_view, 6> kBlockKeys = {"repeat", "with", "first", "last", "order", "loop"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const YamlNode* structure_of(const YamlNode& map) {
  const YamlNode* found = nullptr;
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    if (!contains(kStructures, key.text)) continue;
    const bool inline_block = found != nullptr && ((found->text == "block" && key.text == "layers") ||
                                                   (found->text == "layers" && key.text == "block"));
    if (found != nullptr && !inline_block)
      throw Error("an entry is one thing, not both \"" + found->text + "\" and \"" + key.text + "\"").at(key.mark);
    if (found == nullptr || key.text == "block") found = &key;
  }
  return found;
}

[[noreturn]] void refuse_entry_key(const YamlNode& key) {
  refuse_key(key, "an entry", {"name", "op",     "block",      "repeat",   "with",     "first",    "last",
                               "loop", "order",  "layers",     "residual", "parallel", "if",       "from",
                               "tie",  "frozen", "checkpoint", "keep",     "when",     "autocast", "grad"});
}

bool is_entry_word(std::string_view word) {
  return contains(kStructures, word) || contains(kModifiers, word) || contains(kBlockKeys, word);
}

}  // namespace

ListSyntax EntryReader::list(const YamlNode& node, std::string_view what) const {
  expect_list(node, what);
  ListSyntax out;
  out.mark = node.mark;
  out.entries.reserve(node.children.size());
  for (const YamlNode* item : node.children) out.entries.push_back(entry(*item));
  return out;
}

CallSyntax EntryReader::call(const YamlNode& node) const {
  return node.kind == YamlNode::Kind::map ? operation(node) : read_call(node, names_);
}

EntrySyntax EntryReader::entry(const YamlNode& node) const {
  EntrySyntax out;
  out.mark = node.mark;
  if (node.kind == YamlNode::Kind::scalar) {
    out.what = read_call(node, names_);
  } else if (node.kind == YamlNode::Kind::map) {
    attributes(node, out);
    const bool layer = std::holds_alternative<CallSyntax>(out.what);
    if (!layer && !out.tie.empty()) throw Error("tie belongs to a layer").at(out.tie_mark).label("not to a structure");
    const bool joins =
        std::holds_alternative<ResidualSyntax>(out.what) || std::holds_alternative<ParallelSyntax>(out.what);
    if ((layer || joins) && out.checkpoint)
      throw Error("checkpoint belongs to a block")
          .at(out.checkpoint->mark())
          .label(layer ? "not to a single layer" : "not to a residual or parallel; give it to a block around it");
  } else {
    throw Error("an entry of a list of layers must be a call or a map, not " + describe(node)).at(node.mark);
  }
  return out;
}

// A map is either {op | block | layers | residual | parallel: ..., modifiers} or {NAME: value, modifiers}.
void EntryReader::attributes(const YamlNode& map, EntrySyntax& entry) const {
  const YamlNode* structure = structure_of(map);
  const YamlNode* name = nullptr;
  const YamlNode* value = nullptr;
  const bool block = structure != nullptr && structure->text == "block";
  const bool op = structure != nullptr && structure->text == "op";
  const bool sequence = structure != nullptr && structure->text == "layers";
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    if (contains(kModifiers, key.text)) {
      modifier(key, *map.children[i + 1], entry);
    } else if (structure == nullptr && name == nullptr && !is_entry_word(key.text)) {
      name = &key;
      value = map.children[i + 1];
    } else if (!contains(kStructures, key.text) && !op && !(block && contains(kBlockKeys, key.text)) &&
               !(sequence && key.text == "loop")) {
      if (value != nullptr && value->kind == YamlNode::Kind::scalar && value->in_flow) read_call(*value, names_);
      if (contains(kBlockKeys, key.text))
        throw Error("\"" + key.text + "\" without a block").at(key.mark).label("belongs next to block:");
      refuse_entry_key(key);
    }
  }
  if (name != nullptr) return named(*name, *value, entry);
  if (structure == nullptr)
    throw Error("an entry without a layer").at(map.mark).help("write NAME: Call(...), or op:, block:, layers:, ...");
  const YamlNode& body = *map.find(structure->text);
  if (op)
    entry.what = operation(map);
  else if (block)
    this->block(map, entry);
  else if (structure->text == "layers")
    entry.what = sequential(map, body);
  else if (structure->text == "residual")
    entry.what = residual(body);
  else
    entry.what = parallel(body);
}

SequentialSyntax EntryReader::sequential(const YamlNode& map, const YamlNode& layers) const {
  SequentialSyntax out{list(layers, "layers")};
  if (const YamlNode* loop = map.find("loop")) out.loop = Quantity::read(*loop, names_, "loop");
  return out;
}

void EntryReader::named(const YamlNode& key, const YamlNode& value, EntrySyntax& entry) const {
  if (!entry.name.empty()) throw Error("an entry with two names").at(key.mark);
  if (value.kind == YamlNode::Kind::map && !is_module_name(key.text)) refuse_entry_key(key);
  entry.name = read_module_name(key);
  entry.mark = key.mark;
  if (value.kind == YamlNode::Kind::map) {
    if (const YamlNode* again = value.find("name")) throw Error("an entry with two names").at(again->mark);
    if (structure_of(value) == nullptr) {
      for (std::size_t i = 0; i < value.children.size(); i += 2)
        if (!is_entry_word(value.children[i]->text)) refuse_entry_key(*value.children[i]);
      Error error("the entry \"" + key.text + "\" says no layer");
      error.at(key.mark).help("an entry is NAME: Call(...) or a map with op:, block:, layers:, residual: or parallel:");
      throw error;
    }
    const EntrySyntax outer = entry;
    attributes(value, entry);
    entry.name = outer.name;
    return;
  }
  if (value.kind == YamlNode::Kind::list)
    throw Error("the entry \"" + key.text + "\" is a bare list")
        .at(key.mark)
        .help("write {layers: [...]} for an nn.Sequential");
  if (value.kind == YamlNode::Kind::null)
    throw Error("the entry \"" + key.text + "\" says no layer").at(key.mark).label("expected a call after the colon");
  entry.what = read_call(value, names_);
}

void EntryReader::modifier(const YamlNode& key, const YamlNode& value, EntrySyntax& entry) const {
  const auto once = [&](bool given) {
    if (given) throw Error("\"" + key.text + "\" is given twice for one entry").at(key.mark);
  };
  if (key.text == "name") {
    once(!entry.name.empty());
    entry.name = read_module_name(value);
    entry.mark = value.mark;
  } else if (key.text == "if") {
    once(entry.condition.has_value());
    entry.condition = Quantity::read(value, names_, "if");
  } else if (key.text == "from") {
    once(!entry.from.empty());
    from(value, entry);
  } else if (key.text == "tie") {
    once(!entry.tie.empty());
    if (value.kind != YamlNode::Kind::scalar || !is_module_name(value.text))
      throw Error("tie names a layer, not " + describe(value)).at(value.mark);
    entry.tie = value.text;
    entry.tie_mark = value.mark;
  } else if (key.text == "frozen") {
    once(entry.frozen.has_value());
    entry.frozen = Quantity::read(value, names_, "frozen");
  } else if (key.text == "keep") {
    once(entry.keep.has_value());
    entry.keep = Quantity::read(value, names_, "keep");
  } else if (key.text == "autocast") {
    once(entry.autocast.has_value());
    entry.autocast = Quantity::read(value, names_, "autocast");
  } else if (key.text == "grad") {
    once(entry.grad.has_value());
    entry.grad = Quantity::read(value, names_, "grad");
  } else if (key.text == "when") {
    once(entry.when.has_value());
    if (value.kind != YamlNode::Kind::scalar || (value.text != "train" && value.text != "infer"))
      throw Error("when must be train or infer, not " + describe(value))
          .at(value.mark)
          .label("expected train or infer");
    entry.when = value.text == "train" ? Mode::train : Mode::infer;
  } else {
    once(entry.checkpoint.has_value());
    entry.reentrant = value.kind == YamlNode::Kind::scalar && value.text == "reentrant";
    YamlNode flag = value;
    if (entry.reentrant) flag.text = "true";
    entry.checkpoint = Quantity::read(flag, names_, "checkpoint");
  }
}

void EntryReader::from(const YamlNode& node, EntrySyntax& entry) const {
  const auto add = [&](const YamlNode& name) {
    if (name.kind != YamlNode::Kind::scalar || !is_module_name(name.text))
      throw Error("from names earlier entries, not " + describe(name)).at(name.mark);
    entry.from.push_back(name.text);
    entry.from_marks.push_back(name.mark);
  };
  if (node.kind != YamlNode::Kind::list) return add(node);
  for (const YamlNode* name : node.children) add(*name);
  if (entry.from.empty()) throw Error("from names nothing").at(node.mark).label("expected a name");
}

// {op: "Cat(dim=1)"} or {op: Conv2d, out_channels: 64, ...}
CallSyntax EntryReader::operation(const YamlNode& map) const {
  const YamlNode& op = require(map, "a layer", "op");
  const bool complete = op.kind == YamlNode::Kind::scalar && is_call(op);
  CallSyntax out = complete ? read_call(op, names_) : read_type(op);
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    if (key.text == "op" || contains(kModifiers, key.text)) continue;
    if (complete)
      refuse_key(key, "an entry", {"name", "op", "if", "from", "tie", "frozen", "keep", "when", "autocast", "grad"});
    ArgumentSyntax argument;
    argument.name = read_identifier(key, "an argument");
    argument.name_mark = key.mark;
    argument.value = read_value(*map.children[i + 1], names_);
    out.arguments.push_back(std::move(argument));
  }
  return out;
}

}  // namespace gpuplan
