#include "estimator/distributed/shape_inference.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {
namespace {

class Pruner {
 public:
  explicit Pruner(const Graph& graph) : graph_(graph), pruned_(graph), runs_(graph.nodes.size(), 0) {
    pruned_.edges.clear();
    pruned_.backward_ops.clear();
  }

  Graph prune() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) prune(n);
    hold_saved();
    return std::move(pruned_);
  }

 private:
  bool leads_to_leaf(TensorId t) const {
    const NodeId producer = graph_.tensor(t).producer;
    if (producer != kNone) return runs_[index(producer)] != 0;
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
      if (!leads_to_leaf(edge.input)) continue;
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
  Graph pruned_;
  std::vector<char> runs_;    // by node
  std::vector<char> needed_;  // by local of the node
};

}  // namespace

Graph inferring_graph(const Graph& graph) { return Pruner(graph).prune(); }

}  // namespace gpuplan
