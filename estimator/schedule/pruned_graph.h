// Parts of a graph's backward, as torch.distributed.pipelining asks for them: gradients of what a stage was given
// alone, and those of its weights.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

/// The graph of a stage with the gradients that lead to Graph::leaves alone. Its tensors, buffers and nodes have the
/// numbers that they have in `graph`; what nodes that do not run have saved stays until the output is gone. So is run
/// before the first step, to know the shapes of what stages send each other (stage.py, _forward_metadata_inference,
/// _backward_metadata_inference).
Graph inferring_graph(const Graph& graph);

/// A backward that is run twice (_backward.py, stage_backward_input and stage_backward_weight): to Graph::leaves, which
/// notes the gradients that come to the nodes where weights branch off, and from these to the weights, group by group.
struct SplitBackward {
  Graph inputs, weights;  // with the numbers of the whole graph
  struct Group {
    std::vector<NodeId> from;   // where it begins
    std::vector<NodeId> nodes;  // all that it runs, in the order of their numbers
  };
  std::vector<Group> groups;  // of parameters that branch off together, in the order of the first of each
  /// By node: the last group from which it is reached, and with which it goes; kNone: with the gradient of the input.
  std::vector<std::int32_t> last_group;
};
SplitBackward split_backward(const Graph& graph);

}  // namespace gpuplan
