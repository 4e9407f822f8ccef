#include "estimator/schedule/backward.h"

#include "estimator/schedule/engine.h"

namespace gpuplan {

std::vector<char> reached_nodes(const Graph& graph) {
  std::vector<char> reached(graph.nodes.size(), 0);
  if (graph.loss == kNone) return reached;
  const NodeId root = tensor_of(graph, graph.loss).producer;
  if (root == kNone) return reached;
  reached[static_cast<std::size_t>(root)] = 1;
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (reached[n] != 0)
      for (std::int32_t e = graph.nodes[n].edges.begin; e < graph.nodes[n].edges.end; ++e) {
        const NodeId p = tensor_of(graph, graph.edges[static_cast<std::size_t>(e)].input).producer;
        if (p != kNone) reached[static_cast<std::size_t>(p)] = 1;
      }
  return reached;
}

void append_backward(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept,
                     const Schedule* first) {
  Engine(graph, run, writer, kept, first, reached_nodes(graph)).run();
}

}  // namespace gpuplan
