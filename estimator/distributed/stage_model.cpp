#include "estimator/distributed/stage_model.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/block_sequence.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_cut(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

/// An entry of a body with what comes before and after it: the blocks, or a block that they lie in.
struct Within {
  Body& body;
  std::size_t begin, end;
};

// The entries before that something else than its first input is made of.
std::vector<char> made_by_every_stage(const Within& w, std::size_t states) {
  std::vector<char> needed(w.begin, 0);
  std::vector<std::size_t> open;
  const auto need = [&](std::size_t i) {
    if (i >= w.begin || i == states || std::exchange(needed[i], 1) != 0) return;
    open.push_back(i);
  };
  const auto need_given = [&](const Node& node, std::size_t from) {
    for (std::size_t k = from; k < node.from.size(); ++k) {
      const std::string name = entry_of(w.body, node.from[k]);
      if (!name.empty()) need(static_cast<std::size_t>(std::ranges::find(w.body, name, &Node::name) - w.body.begin()));
    }
  };
  for (std::size_t i = w.begin; i < w.end; ++i) need_given(w.body[i], 1);
  for (std::size_t i = w.end; i < w.body.size(); ++i) need_given(w.body[i], 0);
  while (!open.empty()) {
    const std::size_t i = open.back();
    open.pop_back();
    if (w.body[i].from.empty() && i > 0) need(i - 1);
    need_given(w.body[i], 0);
  }
  return needed;
}

// Whose result the entry is given first: one before it, or `w.begin`, where that is what the body was given.
std::size_t entry_of_states(const Within& w) {
  const std::vector<std::string>& from = w.body[w.begin].from;
  if (from.empty()) return w.begin > 0 ? w.begin - 1 : w.begin;
  for (std::size_t i = 0; i < w.begin; ++i)
    if (w.body[i].name == from.front()) return i;
  return w.begin;
}

void set_first_input(Node& node, const std::string& from) {
  if (node.from.empty()) {
    node.from = {from};
    node.from_marks = {node.mark};
  } else {
    node.from.front() = from;
  }
}

// A mask that asks the embedding for its shape gets the hidden states, as transformers' inputs_embeds.
void hand_on_states(Node& entry, const std::string& input) {
  entry.what = LayerCall{"Identity", {}, entry.mark};
  entry.tie.clear();
  entry.from = {input};
  entry.from_marks = {entry.mark};
}

bool reads_input(const Within& w, std::size_t i, const Model& model) {
  const std::vector<std::string>& from = w.body[i].from;
  if (from.empty()) return i == 0;
  return std::ranges::any_of(from, [&](const std::string& f) {
    return entry_of(w.body, f).empty() &&
           (f.starts_with("input") || std::ranges::find(model.inputs, f, &Input::name) != model.inputs.end());
  });
}

bool is_embedding(const Node& node) {
  const auto* const call = std::get_if<LayerCall>(&node.what);
  return call != nullptr && call->type == "Embedding";
}

// In the place of what made the states comes what the body is given, which is called `input` in it.
void receive_states(const Within& w, std::size_t states, const std::string& input, const Model& model) {
  const std::vector<char> needed = made_by_every_stage(w, states);
  for (std::size_t i = 0; i < w.begin; ++i) {
    if (needed[i] == 0 || !reads_input(w, i, model)) continue;
    if (!is_embedding(w.body[i]))
      refuse_cut("the stages of " + model.name + " are not planned: " + w.body[i].name +
                     ", which every stage makes, is made of the model's input",
                 "models are cut whose masks and positions follow from the shape of the hidden states");
    hand_on_states(w.body[i], input);
  }
  const bool made_here = states < w.begin;
  if (made_here) hand_on_states(w.body[states], input);
  set_first_input(w.body[w.begin], made_here ? w.body[states].name : input);
  for (std::size_t i = w.begin; i-- > 0;)
    if (i != states && needed[i] == 0) w.body.erase(w.body.begin() + static_cast<std::ptrdiff_t>(i));
}

// Itself, or the last one within.
const Layer* last_layer(const Graph& graph, const std::string& path) {
  for (auto made = graph.layers.rbegin(); made != graph.layers.rend(); ++made)
    if (made->output != kNone && (made->name == path || made->name.starts_with(path + "."))) return &*made;
  return nullptr;
}

// The innermost body that something is made in before the blocks says what they are given.
const Layer& layer_of_states(const BlockSequence& s, const Model& model, const Graph& begun) {
  const std::size_t states = entry_of_states({*s.body, s.begin, s.end});
  if (states < s.begin) {
    const std::string path = s.path.empty() ? (*s.body)[states].name : s.path + "." + (*s.body)[states].name;
    if (const Layer* const made = last_layer(begun, path)) return *made;
  }
  refuse_cut("the stages of " + model.name + " are not planned: its longest sequence of blocks follows no layer",
             "models are cut whose blocks follow an embedding");
}

// Each stage but the first is given what the embedding returns.
void refuse_other_shapes(const BlockSequence& s, const Model& model, const Graph& begun, const Shape& shape) {
  const auto check = [&](const std::string& path) {
    const Layer* const made = last_layer(begun, path);
    if (made != nullptr && begun.tensor(made->output).shape == shape) return;
    refuse_cut("the stages of " + model.name + " are not planned: its blocks do not return what they are given",
               "models are cut whose blocks all have hidden states of one shape");
  };
  for (std::size_t i = s.begin; i < s.end; ++i) {
    const Node& node = (*s.body)[i];
    const std::string path = s.path.empty() ? node.name : s.path + "." + node.name;
    if (const auto* repeat = std::get_if<Repeat>(&node.what))
      for (const Node& item : repeat->items) check(path + "." + item.name);
    else
      check(path);
  }
}

// The states are the only input of the stage, at each level that the blocks lie in.
void receive_states(const BlockSequence& s, Model& model, const Graph& begun) {
  if (model.inputs.size() != 1)
    refuse_cut("the stages of " + model.name + " are not planned: it has several inputs",
               "models are cut that are given tokens alone");
  const Shape& shape = begun.tensor(layer_of_states(s, model, begun).output).shape;
  Input hidden{
      .name = model.inputs.front().name, .shape = {}, .requires_grad = true, .mark = model.inputs.front().mark};
  for (int d = 1; d < shape.rank(); ++d) hidden.shape.push_back(shape[d]);
  const Within blocks{*s.body, s.begin, s.end};
  receive_states(blocks, entry_of_states(blocks), s.around.empty() ? hidden.name : "input", model);
  for (std::size_t level = s.around.size(); level-- > 0;) {
    const auto& [body, entry] = s.around[level];
    const Within block{*body, entry, entry + 1};
    receive_states(block, block.begin, level == 0 ? hidden.name : "input", model);
  }
  model.inputs.front() = hidden;
}

// What later stages could not be made of is no pipeline, whichever stage is asked for. `whole`: of all blocks, of which
// the model has the first ones.
void refuse_uncut(Model model, const BlockSequence& whole, const Graph& begun) {
  const BlockSequence s = sequence_like(model.layers, whole);
  refuse_other_shapes(s, model, begun, begun.tensor(layer_of_states(s, model, begun).output).shape);
  receive_states(s, model, begun);
}

void drop_from(Body& body, std::size_t begin) {
  body.erase(body.begin() + static_cast<std::ptrdiff_t>(begin), body.end());
}

void keep_names(EntryOrder& order, const Body& body) {
  for (std::vector<std::string>* names : {&order.made, &order.registered})
    std::erase_if(*names, [&](const std::string& n) { return entry_of(body, n).empty(); });
}

// A weight that is tied to one of another stage is one of its own: whether there is one.
bool forget_dropped(Body& body, const std::set<std::string>& paths) {
  bool untied = false;
  for (Node& node : body) {
    const bool there = node.tie.empty() || std::ranges::any_of(paths, [&](const std::string& path) {
                         return path == node.tie || path.ends_with("." + node.tie);
                       });
    if (!there) node.tie.clear();
    untied = untied || !there;
    if (auto* block = std::get_if<Block>(&node.what)) {
      keep_names(block->order, block->body);
      untied = forget_dropped(block->body, paths) || untied;
    }
  }
  return untied;
}

void collect_paths(const Body& body, const std::string& path, std::set<std::string>& paths) {
  for (const Node& node : body) {
    const std::string own = path.empty() ? node.name : path + "." + node.name;
    const auto* call = std::get_if<LayerCall>(&node.what);
    if (call != nullptr && call->type != "Identity") paths.insert(own);
    if (const auto* block = std::get_if<Block>(&node.what)) collect_paths(block->body, own, paths);
  }
}

}  // namespace

StageModel stage_model(const Model& model, Catalog catalog, const Graph& begun, const Strategy& strategy,
                       std::int64_t number) {
  StageModel stage{model};
  BlockSequence s = longest_sequence(stage.model.layers);
  if (s.blocks == 0)
    refuse_cut("the stages of " + model.name + " are not planned: it has no sequence of blocks to cut",
               "a repeat of blocks in the spec is one");
  refuse_uncut(first_blocks(model), s, begun);
  const std::vector<std::int64_t> each = blocks_of_stages(s.blocks, strategy);
  stage.all_blocks = s.blocks;
  stage.blocks = each[index(number)];
  stage.first_block = std::accumulate(each.begin(), each.begin() + number, std::int64_t{0});
  const bool first = number == 0, last = number + 1 == strategy.stages();
  const std::vector<Input> inputs = model.inputs;
  keep_blocks(s, stage.first_block, stage.blocks);
  if (!last) {
    drop_from(*s.body, s.end);
    for (const auto& [body, entry] : s.around) drop_from(*body, entry + 1);
    stage.model.losses.clear();
  }
  if (!first) {
    receive_states(s, stage.model, begun);
    const LayerDef* const loss = find_layer(catalog, model.loss.type);
    if (last && model.losses.empty() && loss != nullptr && loss->in_model)  // its labels
      stage.model.inputs.push_back({.name = "labels",
                                    .shape = inputs.front().shape,
                                    .dtype = inputs.front().dtype,
                                    .mark = inputs.front().mark});
  }
  std::set<std::string> paths;
  collect_paths(stage.model.layers, "", paths);
  keep_names(stage.model.order, stage.model.layers);
  stage.copies_embedding = forget_dropped(stage.model.layers, paths);
  stage.model.construction.emplace();  // on meta; to_empty() makes the weights
  return stage;
}

}  // namespace gpuplan
