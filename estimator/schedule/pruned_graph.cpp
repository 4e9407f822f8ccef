#include "estimator/schedule/pruned_graph.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/schedule/backward.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {
namespace {

class Pruner {
 public:
  /// Of the gradients of leaves; or, where `closure` says which nodes lead to these, of those of weights that branch
  /// off from them.
  explicit Pruner(const Graph& graph, const std::vector<char>* closure = nullptr)
      : graph_(graph), closure_(closure), pruned_(graph), runs_(graph.nodes.size(), 0) {
    pruned_.edges.clear();
    pruned_.backward_ops.clear();
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) prune(n);
  }

  /// What nodes that do not run have saved stays until the output is gone.
  Graph take_holding() {
    hold_saved();
    return std::move(pruned_);
  }
  Graph take() { return std::move(pruned_); }
  /// By node.
  const std::vector<char>& runs() const { return runs_; }

 private:
  bool is_wanted(TensorId t) const {
    const NodeId producer = graph_.tensor(t).producer;
    if (closure_ != nullptr && producer == kNone) return graph_.tensor(t).trained;
    if (producer != kNone)
      return runs_[index(producer)] != 0 && (closure_ == nullptr || (*closure_)[index(producer)] == 0);
    const bool received = graph_.buffers[index(buffer_of(graph_, t))].category == Category::inputs;
    return received && std::ranges::find(graph_.leaves, t) != graph_.leaves.end();
  }

  void prune(std::size_t n) {
    const AutogradNode& node = graph_.nodes[n];
    AutogradNode& left = pruned_.nodes[n];
    needed_.assign(index(node.locals.end - node.locals.begin), 0);
    left.edges.begin = static_cast<std::int32_t>(pruned_.edges.size());
    for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e) {
      const GradientEdge& edge = graph_.edges[index(e)];
      if (!is_wanted(edge.input)) continue;
      pruned_.edges.push_back(edge);
      need(node, edge.value);
      runs_[n] = 1;
    }
    left.edges.end = static_cast<std::int32_t>(pruned_.edges.size());
    prune_operations(node, left);
  }

  void need(const AutogradNode& node, std::int32_t value) {
    while (value >= 0 && std::exchange(needed_[index(value)], 1) == 0) {
      const BackwardValue& local = graph_.locals[index(node.locals.begin + value)];
      if (local.view == ViewKind::none || local.view == ViewKind::saved) return;
      value = local.alias_of;
    }
  }
  bool is_needed(Range operands) const {
    return std::ranges::any_of(graph_.at(operands),
                               [&](Operand o) { return o < 0 && o != kAbsent && needed_[index(~o)] != 0; });
  }

  // What computes a value that is needed, or changes one in place or holds one, and what that reads.
  void prune_operations(const AutogradNode& node, AutogradNode& left) {
    std::vector<char> kept(index(node.ops.end - node.ops.begin), 0);
    for (bool more = true; more;) {
      more = false;
      for (std::int32_t o = node.ops.end; o-- > node.ops.begin;) {
        const Op& op = graph_.backward_ops[index(o)];
        char& keeps = kept[index(o - node.ops.begin)];
        if (keeps != 0 || !(is_needed(op.writes) || (graph_.at(op.writes).empty() && is_needed(op.reads)))) continue;
        keeps = 1;
        more = true;
        for (const Operand read : graph_.at(op.reads))
          if (read < 0 && read != kAbsent) need(node, ~read);
      }
    }
    left.ops.begin = static_cast<std::int32_t>(pruned_.backward_ops.size());
    for (std::int32_t o = node.ops.begin; o < node.ops.end; ++o)
      if (kept[index(o - node.ops.begin)] != 0) pruned_.backward_ops.push_back(graph_.backward_ops[index(o)]);
    left.ops.end = static_cast<std::int32_t>(pruned_.backward_ops.size());
  }

  // A checkpointed part has what it was given, and nothing of its nodes.
  void hold_saved() {
    std::vector<char> again(graph_.nodes.size(), 0);
    for (const Checkpoint& c : graph_.checkpoints) {
      for (std::int32_t n = c.nodes.begin; n < c.nodes.end; ++n) again[index(n)] = 1;
      if (c.nodes.begin == c.nodes.end || runs_[index(c.nodes.begin)] != 0) continue;
      for (const TensorId t : graph_.at(c.given)) pruned_.held_by_nodes.push_back({kNone, t});
      if (c.selective) hold_kept(c);
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (runs_[n] != 0) continue;
      const Range saved = std::exchange(pruned_.nodes[n].saved, {});
      if (again[n] != 0) continue;
      for (std::int32_t i = saved.begin; i < saved.end; ++i)
        pruned_.held_by_nodes.push_back({static_cast<NodeId>(n), graph_.saved[index(i)]});
    }
  }

  // What its policy keeps.
  void hold_kept(const Checkpoint& c) {
    const std::vector<char> kept = kept_by_policy(graph_, c);
    for (std::int32_t i = c.ops.begin; i < c.ops.end; ++i)
      if (kept[index(i - c.ops.begin)] != 0)
        for (const TensorId t : graph_.at(graph_.forward_ops[index(i)].writes))
          pruned_.held_by_nodes.push_back({kNone, t});
  }

  const Graph& graph_;
  const std::vector<char>* closure_;
  Graph pruned_;
  std::vector<char> runs_;    // by node
  std::vector<char> needed_;  // by local of the node
};

std::span<const GradientEdge> edges_from(const Graph& graph, NodeId n) {
  const Range r = graph.nodes[index(n)].edges;
  return std::span(graph.edges).subspan(index(r.begin), index(r.end - r.begin));
}

// Those nodes and what their edges lead to, in ascending order.
std::vector<NodeId> reached_from(const Graph& graph, std::vector<NodeId> open) {
  std::vector<char> reached(graph.nodes.size(), 0);
  for (const NodeId n : open) reached[index(n)] = 1;
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    for (const GradientEdge& e : edges_from(graph, n))
      if (const NodeId p = graph.tensor(e.input).producer; p != kNone && std::exchange(reached[index(p)], 1) == 0)
        open.push_back(p);
  }
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < reached.size(); ++n)
    if (reached[n] != 0) nodes.push_back(static_cast<NodeId>(n));
  return nodes;
}

// Where each weight branches off: the first nodes above it that lead to a leaf, too (get_param_groups).
class Grouper {
 public:
  Grouper(const Graph& weights, const std::vector<char>& closure, const std::vector<char>& reached)
      : weights_(weights), closure_(closure), users_(weights.nodes.size()), of_weight_(weights.tensors.size()) {
    for (std::size_t n = 0; n < weights.nodes.size(); ++n) {
      if (reached[n] == 0) continue;
      for (const GradientEdge& e : edges_from(weights, static_cast<NodeId>(n))) {
        const NodeId p = weights.tensor(e.input).producer;
        (p == kNone ? of_weight_[index(e.input)] : users_[index(p)]).push_back(static_cast<NodeId>(n));
      }
    }
  }

  std::vector<SplitBackward::Group> group() const {
    std::vector<SplitBackward::Group> groups;
    for (const ParameterTensor& p : weights_.parameters) {
      const std::vector<NodeId> from = branches(p.tensor);
      if (from.empty()) continue;
      const auto shares = [&](const SplitBackward::Group& g) {
        return std::ranges::any_of(from, [&](NodeId n) { return std::ranges::find(g.from, n) != g.from.end(); });
      };
      auto same = std::ranges::find_if(groups, shares);
      if (same == groups.end()) same = groups.insert(groups.end(), SplitBackward::Group{});
      for (const NodeId n : from)
        if (std::ranges::find(same->from, n) == same->from.end()) same->from.push_back(n);
    }
    for (SplitBackward::Group& g : groups) g.nodes = reached_from(weights_, g.from);
    return groups;
  }

 private:
  std::vector<NodeId> branches(TensorId weight) const {
    std::vector<NodeId> open = of_weight_[index(weight)], from;
    while (!open.empty()) {
      const NodeId n = open.back();
      open.pop_back();
      if (closure_[index(n)] != 0)
        from.push_back(n);
      else
        open.insert(open.end(), users_[index(n)].begin(), users_[index(n)].end());
    }
    return from;
  }

  const Graph& weights_;
  const std::vector<char>& closure_;
  std::vector<std::vector<NodeId>> users_;      // by node
  std::vector<std::vector<NodeId>> of_weight_;  // by tensor
};

}  // namespace

Graph inferring_graph(const Graph& graph) { return Pruner(graph).take_holding(); }

SplitBackward split_backward(const Graph& graph) {
  SplitBackward split;
  Pruner inputs(graph);
  const std::vector<char> closure = inputs.runs();
  split.inputs = inputs.take();
  split.weights = Pruner(graph, &closure).take();
  split.groups = Grouper(split.weights, closure, reached_nodes(graph)).group();
  split.last_group.assign(graph.nodes.size(), kNone);
  for (std::size_t g = 0; g < split.groups.size(); ++g)
    for (const NodeId n : reached_from(graph, split.groups[g].from))
      split.last_group[index(n)] = static_cast<std::int32_t>(g);
  return split;
}

}  // namespace gpuplan
