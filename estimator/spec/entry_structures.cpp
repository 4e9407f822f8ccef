// The structures among an entry's forms: block, residual, parallel.
#include <algorithm>

#include "estimator/spec/construction_order.h"
#include "estimator/spec/entry_reader.h"
#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

// Whether, of two keys that a map has, `first` is written first.
bool comes_before(const YamlNode& map, std::string_view first, std::string_view second) {
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    if (map.children[i]->text == first) return true;
    if (map.children[i]->text == second) return false;
  }
  return false;
}

}  // namespace

void EntryReader::block(const YamlNode& map, EntrySyntax& entry) const {
  const YamlNode& name = *map.find("block");
  if (const YamlNode* layers = map.find("layers")) {
    for (const std::string_view key : {"repeat", "with", "first", "last", "loop"})
      if (const YamlNode* value = map.find(key))
        throw Error("a block written in place has no \"" + std::string(key) + "\"").at(value->mark);
    InlineBlockSyntax inline_block{read_identifier(name, "a block"), list(*layers, "layers"), {}};
    if (const YamlNode* order = map.find("order")) inline_block.order = read_order(*order, inline_block.layers);
    entry.what = std::move(inline_block);
    return;
  }
  if (const YamlNode* order = map.find("order"))
    throw Error("the order of construction belongs to the block's definition").at(order->mark);
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
  if (const YamlNode* loop = map.find("loop")) {
    if (!call.repeat) throw Error("\"loop\" without repeat").at(loop->mark);
    call.loop = Quantity::read(*loop, names_, "loop");
  }
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
      known.reserve(params.size());
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
