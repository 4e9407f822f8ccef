// Autograd nodes that backward does not come to, since the loss does not depend on their results: each lives, with what
// it saved, as long as the tensor object that holds its result, or a node made of that.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

struct SavedUntil {
  std::int32_t op;  // of Graph::forward_ops: the last that the node lives to
  BufferId saved;
};

/// What such nodes saved, in the order of the operations that end it. Without those whose result is an output's.
std::vector<SavedUntil> saved_for_nothing(const Graph& graph);

/// What they saved whose results are outputs beside the loss's, as auxiliary logits: it lives as long as the output.
std::vector<BufferId> saved_beside_loss(const Graph& graph);

}  // namespace gpuplan
