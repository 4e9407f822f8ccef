// A model of which each rank of context parallelism has some of the tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// The model's `seq`, as a rank has it. Throws Error (usage) for a model without one, for lengths that the ranks do not
/// divide, and for what Accelerate refuses: layers that attend to a window.
Variable context_variable(const Model& model, std::int64_t ranks);

/// Throws Error (usage) for a model whose input is not as long as that says: `part` is `whole` with the rank's `seq`.
void check_context(const Model& whole, const Model& part, std::int64_t ranks);

/// Whether it is a causal language model of tokens, whose loss is its own.
bool has_context(const Model& model);
/// Throws Error (usage) where it is none.
void refuse_model_of_context(const Model& model);
/// The same for a rank's graph of one that counts positions or attends by itself, and so would take the rank's tokens
/// for a whole sample.
void refuse_graph_of_context(const Graph& graph);

/// Beside rank 0, those that a context's need and time are judged by, as ranks of `strategy`, which is of rank 0: the
/// second one, which needs what all between the first and the last need, and the last. Nothing without a context.
std::vector<Strategy> ranks_of_context(const Strategy& strategy);

/// Throws Error (usage) for what is not planned with context parallelism.
void refuse_context(const RunConfig& run, const Strategy& strategy);

}  // namespace gpuplan
