#include "estimator/spec/entry_reader.h"

#include <algorithm>
#include <array>

#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

// What an entry can be; one of these keys at most.
constexpr std::array<std::string_view, 5> kStructures = {"op", "block", "layers", "residual", "parallel"};
// What any entry may have besides.
constexpr std::array<std::string_view, 6> kModifiers = {"name", "if", "from", "tie", "frozen", "checkpoint"};
constexpr std::array<std::string_view, 4> kBlockKeys = {"repeat", "with", "first", "last"};

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
  refuse_key(key, "an entry",
             {"name", "op", "block", "repeat", "with", "first", "last", "layers", "residual", "parallel", "if", "from",
              "tie", "frozen", "checkpoint"});
}

// Whether, of two keys that a map has, `first` is written first.
bool comes_before(const YamlNode& map, std::string_view first, std::string_view second) {
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    if (map.children[i]->text == first) return true;
    if (map.children[i]->text == second) return false;
  }
  return false;
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
    if (layer && out.checkpoint)
      throw Error("checkpoint belongs to a block").at(out.checkpoint->mark()).label("not to a single layer");
  } else {
    throw Error("an entry of a list of layers is a call or a map, not " + describe(node)).at(node.mark);
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
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    if (contains(kModifiers, key.text)) {
      modifier(key, *map.children[i + 1], entry);
    } else if (structure == nullptr && name == nullptr && !is_entry_word(key.text)) {
      name = &key;
      value = map.children[i + 1];
    } else if (!contains(kStructures, key.text) && !op && !(block && contains(kBlockKeys, key.text))) {
      if (value != nullptr && value->kind == YamlNode::Kind::scalar && value->in_flow) read_call(*value, names_);
      if (contains(kBlockKeys, key.text))
        throw Error("\"" + key.text + "\" without a block").at(key.mark).label("belongs beside block:");
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
    entry.what = SequentialSyntax{list(body, "layers")};
  else if (structure->text == "residual")
    entry.what = residual(body);
  else
    entry.what = parallel(body);
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
  } else {
    once(entry.checkpoint.has_value());
    entry.checkpoint = Quantity::read(value, names_, "checkpoint");
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
    if (complete) refuse_key(key, "an entry", {"name", "op", "if", "from", "tie", "frozen"});
    ArgumentSyntax argument;
    argument.name = read_identifier(key, "an argument");
    argument.name_mark = key.mark;
    argument.value = read_value(*map.children[i + 1], names_);
    out.arguments.push_back(std::move(argument));
  }
  return out;
}

void EntryReader::block(const YamlNode& map, EntrySyntax& entry) const {
  const YamlNode& name = *map.find("block");
  if (const YamlNode* layers = map.find("layers")) {
    for (const std::string_view key : kBlockKeys)
      if (const YamlNode* value = map.find(key))
        throw Error("a block written in place has no \"" + std::string(key) + "\"").at(value->mark);
    entry.what = InlineBlockSyntax{read_identifier(name, "a block"), list(*layers, "layers")};
    return;
  }
  BlockCallSyntax call;
  const std::string wanted = read_identifier(name, "a block");
  call.mark = name.mark;
  const auto found = index_.find(wanted);
  if (found == index_.end()) {
    std::vector<std::string> known;
    for (const BlockSyntax& b : blocks_) known.push_back(b.name);
    throw Error("unknown block \"" + wanted + "\"" + did_you_mean(wanted, known)).at(name.mark).label("not in blocks:");
  }
  call.block = found->second;
  if (const YamlNode* repeat = map.find("repeat")) call.repeat = Quantity::read(*repeat, names_, "repeat");
  if (const YamlNode* with = map.find("with")) call.with = given(*with, call.block, "with");
  for (const std::string_view word : {"first", "last"}) {
    const YamlNode* value = map.find(word);
    if (value == nullptr) continue;
    if (!call.repeat) throw Error("\"" + std::string(word) + "\" without repeat").at(value->mark);
    (word == "first" ? call.first : call.last) = given(*value, call.block, word);
  }
  entry.what = std::move(call);
}

std::vector<GivenParam> EntryReader::given(const YamlNode& map, std::size_t block, std::string_view what) const {
  expect_map(map, what);
  const std::vector<ParamSyntax>& params = blocks_[block].params;
  std::vector<GivenParam> out;
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    const auto found =
        std::find_if(params.begin(), params.end(), [&](const ParamSyntax& p) { return p.name == key.text; });
    if (found == params.end()) {
      std::vector<std::string> known;
      for (const ParamSyntax& p : params) known.push_back(p.name);
      throw Error("the block " + blocks_[block].name + " has no parameter \"" + key.text + "\"" +
                  did_you_mean(key.text, known))
          .at(key.mark)
          .label("not in its params:");
    }
    out.push_back({static_cast<std::size_t>(found - params.begin()),
                   Quantity::read(*map.children[i + 1], names_, key.text), key.mark});
  }
  return out;
}

ResidualSyntax EntryReader::residual(const YamlNode& node) const {
  ResidualSyntax out;
  if (node.kind == YamlNode::Kind::list) {
    out.body = list(node, "residual");
  } else {
    expect_map(node, "residual");
    expect_keys(node, "residual", {"body", "shortcut", "inplace"});
    out.body = list(require(node, "a residual", "body"), "body");
    if (const YamlNode* inplace = node.find("inplace")) out.inplace = Quantity::read(*inplace, names_, "inplace");
    if (const YamlNode* shortcut = node.find("shortcut")) {
      out.shortcut_first = comes_before(node, "shortcut", "body");
      if (shortcut->kind == YamlNode::Kind::map) {
        expect_keys(*shortcut, "shortcut", {"if", "layers"});
        if (const YamlNode* condition = shortcut->find("if"))
          out.shortcut_if = Quantity::read(*condition, names_, "if");
        out.shortcut = list(require(*shortcut, "a shortcut", "layers"), "layers");
      } else {
        out.shortcut = list(*shortcut, "shortcut");
      }
    }
  }
  if (out.body.entries.empty()) throw Error("a residual with an empty body").at(node.mark);
  return out;
}

ParallelSyntax EntryReader::parallel(const YamlNode& node) const {
  expect_map(node, "parallel");
  expect_keys(node, "parallel", {"branches", "join", "dim"});
  ParallelSyntax out;
  const YamlNode* join = node.find("join");
  if (join != nullptr) {
    if (join->text != "cat" && join->text != "add" && join->text != "mul")
      throw Error("branches are joined by cat, add or mul, not " + describe(*join)).at(join->mark);
    out.join = join->text == "cat" ? Join::cat : join->text == "add" ? Join::add : Join::mul;
  }
  if (const YamlNode* dim = node.find("dim")) {
    if (out.join != Join::cat) throw Error("dim without join: cat").at(dim->mark).label("only cat has a dimension");
    out.dim = Quantity::read(*dim, names_, "dim");
  }
  const YamlNode& branches = require(node, "parallel", "branches");
  if (branches.kind == YamlNode::Kind::map) {
    for (std::size_t i = 0; i < branches.children.size(); i += 2) {
      ParallelSyntax::Branch one = branch(*branches.children[i + 1]);
      one.name = read_module_name(*branches.children[i]);
      one.mark = branches.children[i]->mark;
      out.branches.push_back(std::move(one));
    }
  } else {
    expect_list(branches, "branches");
    for (const YamlNode* item : branches.children) out.branches.push_back(branch(*item));
  }
  if (out.branches.empty()) throw Error("parallel without branches").at(branches.mark);
  return out;
}

// A list of entries, or a single entry; `[]` is the identity.
ParallelSyntax::Branch EntryReader::branch(const YamlNode& node) const {
  ParallelSyntax::Branch out;
  out.mark = node.mark;
  if (node.kind == YamlNode::Kind::list) {
    out.layers = list(node, "a branch");
  } else {
    out.layers.mark = node.mark;
    out.layers.entries.push_back(entry(node));
  }
  return out;
}

}  // namespace gpuplan
