#include <algorithm>
#include <array>
#include <unordered_map>

#include "estimator/spec/construction_order.h"
#include "estimator/spec/construction_steps.h"
#include "estimator/spec/entry_reader.h"
#include "estimator/spec/keys.h"
#include "estimator/spec/limits.h"
#include "estimator/spec/lora.h"
#include "estimator/spec/syntax.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kFormatVersion = 1;

void check_version(const YamlNode& document) {
  const YamlNode* version = document.find("gpuplan");
  if (version != nullptr && (version->quoted || version->text != std::to_string(kFormatVersion)))
    throw Error("this gpuplan reads format " + std::to_string(kFormatVersion) + ", not " + describe(*version))
        .at(version->mark)
        .label("write gpuplan: " + std::to_string(kFormatVersion));
}

// A name that expressions can use.
std::string read_variable_name(const YamlNode& node, std::string_view what) {
  constexpr std::array<std::string_view, 9> kReserved = {"and",  "or",    "not",  "min",  "max",
                                                         "true", "false", "True", "False"};
  std::string name = read_identifier(node, what);
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
    throw Error("\"" + name + "\" is a word of expressions").at(node.mark).label("choose another name");
  return name;
}

void expect_at_most(std::size_t most, const YamlNode& map, std::string_view what) {
  if (map.children.size() > 2 * most)
    throw Error("more than " + std::to_string(most) + " " + std::string(what)).at(map.children[2 * most]->mark);
}

// Each may use those before it.
void read_vars(const YamlNode& map, SpecSyntax& spec, std::vector<std::string>& names) {
  expect_map(map, "vars");
  expect_at_most(kMaxVariables, map, "variables");
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    VariableSyntax var;
    var.name = read_variable_name(key, "a variable");
    var.mark = key.mark;
    var.value = Quantity::read(*map.children[i + 1], {{}, names}, var.name);
    names.push_back(var.name);
    spec.vars.push_back(std::move(var));
  }
}

InputSyntax read_input(const std::string& name, const YamlNode& key, const YamlNode& node, const Names& names) {
  expect_map(node, "an input");
  expect_keys(node, "an input", {"shape", "dtype", "requires_grad"});
  InputSyntax input;
  input.name = name;
  input.mark = key.mark;
  const YamlNode& shape = require(node, "an input", "shape");
  expect_list(shape, "shape");
  input.shape_mark = shape.mark;
  if (shape.children.size() > kMaxInputRank)
    throw Error("an input of more than " + std::to_string(kMaxInputRank) + " dimensions besides the batch")
        .at(shape.mark);
  for (const YamlNode* size : shape.children) input.shape.push_back(Quantity::read(*size, names, "a size"));
  if (const YamlNode* dtype = node.find("dtype")) {
    const auto found = dtype_from_name(dtype->text);
    if (!found)
      throw Error("unknown dtype " + describe(*dtype))
          .at(dtype->mark)
          .help("fp32, fp64, fp16, bf16, int64, int32, uint8, int8 or bool");
    input.dtype = *found;
  }
  if (const YamlNode* grad = node.find("requires_grad"))
    input.requires_grad = Quantity::read(*grad, names, "requires_grad");
  return input;
}

const YamlNode& key_of(const YamlNode& map, std::string_view key) {
  std::size_t i = 0;
  while (map.children[i]->text != key) i += 2;
  return *map.children[i];
}

void read_inputs(const YamlNode& document, SpecSyntax& spec, const Names& names) {
  const YamlNode* one = document.find("input");
  const YamlNode* many = document.find("inputs");
  if (one != nullptr && many != nullptr)
    throw Error("both input and inputs").at(key_of(document, "inputs").mark).label("give one of them");
  if (one == nullptr && many == nullptr)
    throw Error("a model spec needs input: or inputs:")
        .at(document.mark)
        .help("input: {shape: [3, 224, 224]}, without the batch");
  if (one != nullptr) {
    spec.inputs.push_back(read_input("input", key_of(document, "input"), *one, names));
    return;
  }
  expect_map(*many, "inputs");
  expect_at_most(kMaxInputs, *many, "inputs");
  for (std::size_t i = 0; i < many->children.size(); i += 2) {
    const YamlNode& key = *many->children[i];
    spec.inputs.push_back(read_input(read_identifier(key, "an input"), key, *many->children[i + 1], names));
  }
  if (spec.inputs.empty()) throw Error("inputs without an input").at(many->mark);
}

std::vector<std::string> param_names(const BlockSyntax& block) {
  std::vector<std::string> names;
  names.reserve(block.params.size());
  for (const ParamSyntax& p : block.params) names.push_back(p.name);
  return names;
}

BlockSyntax read_block_params(const YamlNode& key, const YamlNode& node, std::span<const std::string> vars) {
  BlockSyntax block;
  block.name = read_identifier(key, "a block");
  block.mark = key.mark;
  expect_map(node, "a block");
  expect_keys(node, "a block", {"params", "layers", "order"});
  const YamlNode* params = node.find("params");
  if (params == nullptr) return block;
  expect_map(*params, "params");
  expect_at_most(kMaxParams, *params, "params");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < params->children.size(); i += 2) {
    const YamlNode& value = *params->children[i + 1];
    ParamSyntax param;
    param.name = read_variable_name(*params->children[i], "a parameter");
    param.mark = params->children[i]->mark;
    if (value.kind != YamlNode::Kind::scalar || value.quoted || value.text != "required")
      param.otherwise = Quantity::read(value, {names, vars}, param.name);
    names.push_back(param.name);
    block.params.push_back(std::move(param));
  }
  return block;
}

void read_blocks(const YamlNode& map, SpecSyntax& spec, BlockIndex& index, const std::vector<std::string>& vars) {
  expect_map(map, "blocks");
  for (std::size_t i = 0; i < map.children.size(); i += 2) {
    spec.blocks.push_back(read_block_params(*map.children[i], *map.children[i + 1], vars));
    index.emplace(spec.blocks.back().name, spec.blocks.size() - 1);
  }
  for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::vector<std::string> params = param_names(spec.blocks[i]);
    const Names names{params, vars};
    const EntryReader reader(spec.blocks, index, names);
    const YamlNode& body = *map.children[2 * i + 1];
    spec.blocks[i].layers = reader.list(require(body, "the block " + spec.blocks[i].name, "layers"), "layers");
    if (const YamlNode* order = body.find("order")) spec.blocks[i].order = read_order(*order, spec.blocks[i].layers);
  }
}

// The calls of blocks within a list, at any depth.
void collect_calls(const ListSyntax& list, std::vector<const BlockCallSyntax*>& out) {
  for (const EntrySyntax& entry : list.entries) {
    if (const auto* call = std::get_if<BlockCallSyntax>(&entry.what)) {
      out.push_back(call);
    } else if (const auto* inline_block = std::get_if<InlineBlockSyntax>(&entry.what)) {
      collect_calls(inline_block->layers, out);
    } else if (const auto* sequential = std::get_if<SequentialSyntax>(&entry.what)) {
      collect_calls(sequential->layers, out);
    } else if (const auto* residual = std::get_if<ResidualSyntax>(&entry.what)) {
      collect_calls(residual->body, out);
      collect_calls(residual->shortcut, out);
    } else if (const auto* parallel = std::get_if<ParallelSyntax>(&entry.what)) {
      for (const ParallelSyntax::Branch& branch : parallel->branches) collect_calls(branch.layers, out);
    }
  }
}

// Depth first with a stack of its own: a chain of blocks may be as long as the file.
void refuse_recursion(const std::vector<BlockSyntax>& blocks) {
  enum class State : std::uint8_t { unseen, open, closed };
  struct Visit {
    std::size_t block;
    std::vector<const BlockCallSyntax*> calls;
    std::size_t next = 0;
  };
  std::vector<State> state(blocks.size(), State::unseen);
  for (std::size_t start = 0; start < blocks.size(); ++start) {
    if (state[start] != State::unseen) continue;
    std::vector<Visit> stack;
    const auto enter = [&](std::size_t block) {
      state[block] = State::open;
      stack.push_back({block, {}, 0});
      collect_calls(blocks[block].layers, stack.back().calls);
    };
    for (enter(start); !stack.empty();) {
      Visit& top = stack.back();
      if (top.next == top.calls.size()) {
        state[top.block] = State::closed;
        stack.pop_back();
        continue;
      }
      const BlockCallSyntax& call = *top.calls[top.next++];
      if (state[call.block] == State::open) {
        std::string chain;
        auto from = std::find_if(stack.begin(), stack.end(), [&](const Visit& v) { return v.block == call.block; });
        constexpr std::ptrdiff_t kShown = 8;
        for (std::ptrdiff_t shown = 0; from != stack.end(); ++from, ++shown)
          if (shown < kShown)
            chain += blocks[from->block].name + " -> ";
          else if (shown == kShown)
            chain += "... -> ";
        throw Error("the block " + blocks[call.block].name + " contains itself")
            .at(call.mark)
            .label("would never end")
            .help(chain + blocks[call.block].name);
      }
      if (state[call.block] == State::unseen) enter(call.block);
    }
  }
}

CallSyntax read_loss(const YamlNode* node, const EntryReader& reader) {
  CallSyntax loss;
  if (node == nullptr) {
    loss.type = "CrossEntropyLoss";
  } else if (node->kind == YamlNode::Kind::scalar && node->text == "mean") {
    loss.type = "mean";
    loss.mark = node->mark;
  } else {
    loss = reader.call(*node);
  }
  return loss;
}

std::string read_text(const YamlNode& node, const std::string& key) {
  if (node.kind != YamlNode::Kind::scalar || node.text.empty())
    throw Error(key + " must be text, not " + describe(node)).at(node.mark);
  if (std::ranges::any_of(node.text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw Error("a control character in the " + key).at(node.mark);
  return node.text;
}

Note read_note(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::map) return {read_text(node, "note"), std::nullopt};
  expect_keys(node, "a note of one type", {"fp16", "bf16"});
  if (node.children.size() != 2) throw Error("a note of one type is {fp16: TEXT} or {bf16: TEXT}").at(node.mark);
  const YamlNode& type = *node.children[0];
  return {read_text(*node.children[1], "note"), dtype_from_name(type.text)};
}

AskedType read_asked_type(const YamlNode& node) {
  const std::vector<std::string> known = {"fp16", "bf16", "amp-fp16", "amp-bf16"};
  const std::string text = read_text(node, "exported_for");
  if (std::ranges::find(known, text) == known.end())
    throw Error("exported_for must be a type, not \"" + text + "\"" + did_you_mean(text, known))
        .at(node.mark)
        .label("expected fp16, bf16, amp-fp16 or amp-bf16");
  if (text.starts_with("amp-")) return {DType::fp32, dtype_from_name(text.substr(4))};
  return {*dtype_from_name(text), std::nullopt};
}

std::vector<Mismatch> read_differences(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::map)
    throw Error("differs must be {train: TEXT, infer: TEXT}, not " + describe(node)).at(node.mark);
  expect_keys(node, "differs", {"train", "infer"});
  std::vector<Mismatch> found;
  for (const auto& [key, mode] : {std::pair{"train", Mode::train}, {"infer", Mode::infer}})
    if (const YamlNode* text = node.find(key)) found.push_back({mode, read_text(*text, "difference")});
  return found;
}

// What was compared is the spec as it was exported: not one that extends it.
void read_remarks(const YamlNode& document, SpecSyntax& spec) {
  if (const YamlNode* gpu = document.find("recorded_on")) spec.recorded_on = read_text(*gpu, "recorded_on");
  if (const YamlNode* type = document.find("exported_for")) spec.exported_for = read_asked_type(*type);
  if (const YamlNode* verified = document.find("verified")) {
    const std::string text = read_text(*verified, "verified");
    if (document.find("extends") == nullptr) spec.verified = text;
  }
  if (const YamlNode* differs = document.find("differs")) {
    std::vector<Mismatch> found = read_differences(*differs);
    if (document.find("extends") == nullptr) spec.differs = std::move(found);
  }
  const YamlNode* notes = document.find("notes");
  if (notes == nullptr) return;
  if (notes->kind != YamlNode::Kind::list)
    throw Error("notes must be a list of texts, not " + describe(*notes)).at(notes->mark);
  for (const YamlNode* note : notes->children) spec.notes.push_back(read_note(*note));
}

}  // namespace

SpecSyntax parse_spec(const YamlNode& document, const std::string& default_name) {
  check_version(document);
  expect_keys(document, "a model spec",
              {"gpuplan", "name", "extends", "vars", "input", "inputs", "blocks", "layers", "order", "lora", "loss",
               "own_loss", "recorded_on", "exported_for", "verified", "differs", "notes", "construction"});
  SpecSyntax spec;
  spec.name = default_name;
  if (const YamlNode* name = document.find("name")) {
    spec.name = read_text(*name, "name");
    if (spec.name.size() > kMaxNameBytes)
      throw Error("a name of more than " + std::to_string(kMaxNameBytes) + " characters").at(name->mark);
  }
  read_remarks(document, spec);
  std::vector<std::string> vars;
  if (const YamlNode* map = document.find("vars")) read_vars(*map, spec, vars);
  const Names names{{}, vars};
  read_inputs(document, spec, names);
  BlockIndex index;
  if (const YamlNode* map = document.find("blocks")) read_blocks(*map, spec, index, vars);
  refuse_recursion(spec.blocks);
  const EntryReader reader(spec.blocks, index, names);
  spec.layers = reader.list(require(document, "a model spec", "layers"), "layers");
  if (spec.layers.entries.empty()) throw Error("a model without layers").at(spec.layers.mark);
  if (const YamlNode* order = document.find("order")) spec.order = read_order(*order, spec.layers);
  if (const YamlNode* made = document.find("construction")) spec.construction = read_construction(*made);
  if (const YamlNode* lora = document.find("lora")) spec.lora = read_lora(*lora, names);
  const YamlNode* loss = document.find("loss");
  if (const YamlNode* own = document.find("own_loss")) {
    if (loss != nullptr) throw Error("a spec has loss: or own_loss:, not both").at(loss->mark);
    if (own->kind != YamlNode::Kind::list)
      throw Error("own_loss must be a list of entries, not " + describe(*own)).at(own->mark);
    spec.own_loss = true;
    loss = own;
  }
  if (loss != nullptr && loss->kind == YamlNode::Kind::list) {
    spec.losses = reader.list(*loss, "loss");
    if (spec.losses.entries.empty()) throw Error("a loss without entries").at(loss->mark);
    spec.loss.mark = loss->mark;
  } else {
    spec.loss = read_loss(loss, reader);
  }
  return spec;
}

}  // namespace gpuplan
