#include "estimator/schedule/unreached.h"

#include <algorithm>

#include "estimator/schedule/backward.h"

namespace gpuplan {
namespace {

// Of every buffer the last operation that reads or writes it.
std::vector<std::int32_t> last_operations(const Graph& graph) {
  std::vector<std::int32_t> last(graph.buffers.size(), kNone);
  for (std::size_t i = 0; i < graph.forward_ops.size(); ++i)
    for (const Range tensors : {graph.forward_ops[i].reads, graph.forward_ops[i].writes})
      for (const TensorId t : graph.at(tensors))
        last[static_cast<std::size_t>(buffer_of(graph, t))] = static_cast<std::int32_t>(i);
  return last;
}

}  // namespace

std::vector<SavedUntil> saved_for_nothing(const Graph& graph) {
  std::vector<SavedUntil> saved;
  if (graph.loss == kNone) return saved;
  const std::vector<char> reached = reached_nodes(graph);
  if (std::ranges::find(reached, 0) == reached.end()) return saved;
  const std::vector<std::int32_t> last = last_operations(graph);
  std::vector<std::int32_t> lives(graph.nodes.size(), kNone);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    if (reached[n] != 0) continue;
    const AutogradNode& node = graph.nodes[n];
    for (const TensorId t : graph.at(node.outputs))
      lives[n] = std::max(lives[n], last[static_cast<std::size_t>(buffer_of(graph, t))]);
    for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e) {
      const NodeId producer = graph.tensor(graph.edges[static_cast<std::size_t>(e)].input).producer;
      if (producer == kNone) continue;
      std::int32_t& until = lives[static_cast<std::size_t>(producer)];
      until = std::max(until, lives[n]);
    }
    for (std::int32_t i = node.saved.begin; i < node.saved.end; ++i)
      saved.push_back({lives[n], buffer_of(graph, graph.saved[static_cast<std::size_t>(i)])});
  }
  std::erase_if(saved, [](const SavedUntil& s) { return s.op == kNone; });
  std::ranges::stable_sort(saved, {}, &SavedUntil::op);
  return saved;
}

std::vector<BufferId> saved_beside_loss(const Graph& graph) {
  std::vector<BufferId> saved;
  const std::vector<char> reached = reached_nodes(graph);
  std::vector<char> held(graph.nodes.size(), 0);
  const auto hold = [&](TensorId t) {
    const NodeId producer = graph.tensor(t).producer;
    if (producer != kNone && reached[static_cast<std::size_t>(producer)] == 0)
      held[static_cast<std::size_t>(producer)] = 1;
  };
  for (const TensorId t : graph.kept_with_output) hold(t);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    if (held[n] == 0) continue;
    const AutogradNode& node = graph.nodes[n];
    for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e)
      hold(graph.edges[static_cast<std::size_t>(e)].input);
    for (std::int32_t i = node.saved.begin; i < node.saved.end; ++i)
      saved.push_back(buffer_of(graph, graph.saved[static_cast<std::size_t>(i)]));
  }
  return saved;
}

}  // namespace gpuplan
