#include "estimator/distributed/stage_model.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_cut(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

bool is_numbered_block(const Node& node) {
  const std::string_view last = std::string_view(node.name).substr(node.name.rfind('.') + 1);
  return std::holds_alternative<Block>(node.what) && !last.empty() && last.find_first_not_of("0123456789") == last.npos;
}

/// A sequence of blocks: a repeat, or entries layers.0, layers.1, ... of a body.
struct Sequence {
  Body* body = nullptr;
  std::size_t begin = 0, end = 0;  // entries of it
  std::int64_t blocks = 0;
  std::string path;                                   // of the body
  std::vector<std::pair<Body*, std::size_t>> around;  // the entries that it lies in, from the outside
};

class LongestSequence {
 public:
  /// `like`: the one at that place, however long it is.
  explicit LongestSequence(Body& layers, const Sequence* like = nullptr) : like_(like) { visit(layers, ""); }
  Sequence take() { return std::move(longest_); }

 private:
  void visit(Body& body, const std::string& path) {
    for (std::size_t i = 0; i < body.size();) {
      if (const auto* repeat = std::get_if<Repeat>(&body[i].what)) {
        offer(body, path, i, i + 1, std::ssize(repeat->items));
      } else if (is_numbered_block(body[i])) {
        std::size_t end = i;
        while (end < body.size() && is_numbered_block(body[end])) ++end;
        offer(body, path, i, end, static_cast<std::int64_t>(end - i));
        i = end;
        continue;
      } else if (auto* block = std::get_if<Block>(&body[i].what)) {
        around_.emplace_back(&body, i);
        visit(block->body, path.empty() ? body[i].name : path + "." + body[i].name);
        around_.pop_back();
      }
      ++i;
    }
  }

  void offer(Body& body, const std::string& path, std::size_t begin, std::size_t end, std::int64_t blocks) {
    if (like_ != nullptr && (path != like_->path || begin != like_->begin)) return;
    if (blocks > longest_.blocks) longest_ = {&body, begin, end, blocks, path, around_};
  }

  const Sequence* like_;
  Sequence longest_;
  std::vector<std::pair<Body*, std::size_t>> around_;
};

// "rotary_emb" of "rotary_emb.0".
std::string entry_of(const Body& body, const std::string& reference) {
  std::string name = reference;
  while (std::ranges::find(body, name, &Node::name) == body.end()) {
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos) return "";
    name.resize(dot);
  }
  return name;
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
const Layer& layer_of_states(const Sequence& s, const Model& model, const Graph& begun) {
  const std::size_t states = entry_of_states({*s.body, s.begin, s.end});
  if (states < s.begin) {
    const std::string path = s.path.empty() ? (*s.body)[states].name : s.path + "." + (*s.body)[states].name;
    if (const Layer* const made = last_layer(begun, path)) return *made;
  }
  refuse_cut("the stages of " + model.name + " are not planned: its longest sequence of blocks follows no layer",
             "models are cut whose blocks follow an embedding");
}

// Each stage but the first is given what the embedding returns.
void refuse_other_shapes(const Sequence& s, const Model& model, const Graph& begun, const Shape& shape) {
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
void receive_states(const Sequence& s, Model& model, const Graph& begun) {
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
void refuse_uncut(Model model, const Sequence& whole, const Graph& begun) {
  const Sequence s = LongestSequence(model.layers, &whole).take();
  refuse_other_shapes(s, model, begun, begun.tensor(layer_of_states(s, model, begun).output).shape);
  receive_states(s, model, begun);
}

void drop_from(Body& body, std::size_t begin) {
  body.erase(body.begin() + static_cast<std::ptrdiff_t>(begin), body.end());
}

// Of the sequence the blocks from `first` on, `count` of them.
void keep_blocks(Sequence& s, std::int64_t first, std::int64_t count) {
  const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(first + count);
  if (auto* repeat = std::get_if<Repeat>(&(*s.body)[s.begin].what)) {
    repeat->items = Body(repeat->items.begin() + begin, repeat->items.begin() + end);
    return;
  }
  const std::vector<std::string> from = (*s.body)[s.begin].from;
  const std::vector<SourceMark> marks = (*s.body)[s.begin].from_marks;
  const auto blocks = s.body->begin() + static_cast<std::ptrdiff_t>(s.begin);
  s.body->erase(blocks + end, blocks + static_cast<std::ptrdiff_t>(s.blocks));
  s.body->erase(blocks, blocks + begin);
  s.end = s.begin + static_cast<std::size_t>(count);
  Node& given = (*s.body)[s.begin];  // the first one is given what the first of all was
  if (!from.empty()) given.from = from;
  if (!from.empty()) given.from_marks = marks;
}

// Whether an entry behind numbered blocks names one that is not among the first `few`.
bool is_named_behind(const Sequence& s, std::int64_t few) {
  if (std::holds_alternative<Repeat>((*s.body)[s.begin].what)) return false;
  for (std::size_t i = s.end; i < s.body->size(); ++i)
    for (const std::string& from : (*s.body)[i].from)
      for (std::size_t b = s.begin + static_cast<std::size_t>(few); b < s.end; ++b)
        if (entry_of(*s.body, from) == (*s.body)[b].name) return true;
  return false;
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

std::vector<std::int64_t> blocks_of_stages(std::int64_t blocks, const Strategy& strategy) {
  const std::int64_t stages = strategy.pipeline;
  std::vector<std::int64_t> each = strategy.pipelining.blocks;
  const bool ends = each.empty() && strategy.pipelining.counts_ends;
  if (each.empty()) {
    const std::int64_t all = blocks + (ends ? 2 : 0);
    for (std::int64_t s = 0; s < stages; ++s) each.push_back(all / stages + (s < all % stages ? 1 : 0));
  }
  if (ends) {  // torchtitan's _generate_llm_fqn_per_model_part
    each.front() -= 1;
    each.back() -= 1;
  }
  if (std::ssize(each) != stages || std::accumulate(each.begin(), each.end(), std::int64_t{0}) != blocks)
    refuse_cut("split= has " + std::to_string(each.size()) + " numbers that add up to " +
                   std::to_string(std::accumulate(each.begin(), each.end(), std::int64_t{0})) + "; there are " +
                   std::to_string(stages) + " stages and " + std::to_string(blocks) + " blocks",
               "leave out split= to share the blocks evenly");
  if (std::ranges::any_of(each, [](std::int64_t n) { return n < 1; }))
    refuse_cut("a stage without blocks: --pp " + std::to_string(stages) + " of " + std::to_string(blocks) + " blocks",
               "--pp " + std::to_string(std::max<std::int64_t>(blocks, 1)) + " at the most");
  return each;
}

std::vector<std::int64_t> kinds_of_stages(std::int64_t blocks, const Strategy& strategy) {
  const std::vector<std::int64_t> each = blocks_of_stages(blocks, strategy);
  std::vector<std::int64_t> kinds = {0};
  std::set<std::int64_t> known;
  for (std::int64_t s = 1; s + 1 < strategy.pipeline; ++s)
    if (known.insert(each[index(s)]).second) kinds.push_back(s);
  kinds.push_back(strategy.pipeline - 1);
  return kinds;
}

Model first_blocks(Model model) {
  constexpr std::int64_t kFew = 2;  // the second one is given what the first one returns
  Sequence s = LongestSequence(model.layers).take();
  if (s.blocks <= kFew || is_named_behind(s, kFew)) return model;
  keep_blocks(s, 0, kFew);
  return model;
}

StageModel stage_model(const Model& model, Catalog catalog, const Graph& begun, const Strategy& strategy) {
  StageModel stage{model};
  Sequence s = LongestSequence(stage.model.layers).take();
  if (s.blocks == 0)
    refuse_cut("the stages of " + model.name + " are not planned: it has no sequence of blocks to cut",
               "a repeat of blocks in the spec is one");
  refuse_uncut(first_blocks(model), s, begun);
  const std::vector<std::int64_t> each = blocks_of_stages(s.blocks, strategy);
  const auto number = strategy.pipelining.stage;
  stage.all_blocks = s.blocks;
  stage.blocks = each[index(number)];
  stage.first_block = std::accumulate(each.begin(), each.begin() + number, std::int64_t{0});
  const bool first = number == 0, last = number + 1 == strategy.pipeline;
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
