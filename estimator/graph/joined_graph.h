// Several graphs as one, such as those of the stages that a pipeline's rank has: what the first one runs, then what the
// next one does, and nothing between them.
#pragma once

#include "estimator/graph/graph.h"

namespace gpuplan {

/// Where what a graph has begins in the one that it was appended to.
struct GraphOffsets {
  std::int32_t buffers = 0, tensors = 0, operands = 0, attributes = 0, forward_ops = 0, backward_ops = 0, saved = 0,
               locals = 0, strides = 0, edges = 0, nodes = 0, layers = 0;
};
/// Of what is appended next.
GraphOffsets offsets_in(const Graph& graph);

/// The output and the losses are those of `more` then. Neither may have a program of its construction.
void append_graph(Graph& graph, const Graph& more);

}  // namespace gpuplan
