// What torch.distributed.pipelining runs before the first step, to know the shapes of what stages send each other
// (stage.py, _forward_metadata_inference, _backward_metadata_inference): one micro-batch, of whose backward only the
// gradient of the hidden states is asked for.
#pragma once

#include "estimator/graph/graph.h"

namespace gpuplan {

/// The graph of a stage with the gradients that lead to Graph::leaves alone. Its tensors, buffers and nodes have the
/// numbers that they have in `graph`; what nodes that do not run have saved stays until the output is gone.
Graph inferring_graph(const Graph& graph);

}  // namespace gpuplan
