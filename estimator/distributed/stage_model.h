// The part of a model that a stage of torch.distributed.pipelining runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/distributed/block_sequence.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct StageModel {
  Model model;
  std::int64_t first_block = 0, blocks = 0, all_blocks = 0;
  bool copies_embedding = false;  // the head, which is tied to the embedding of another stage
};

/// The stage of that number of a model whose blocks come one after the other, as its longest sequence of
/// blocks: what comes before them, whose result the first one is given, belongs to the first stage, what comes after
/// them and the loss to the last one. What other blocks are given besides (masks, rotary tables) is made by every
/// stage, and the result of the block before is an input, of the shape that it has in `begun`, the graph of
/// first_blocks(), with a gradient. Throws Error, of kind usage, for models that cannot be cut so.
StageModel stage_model(const Model& model, Catalog catalog, const Graph& begun, const Strategy& strategy,
                       std::int64_t number);

}  // namespace gpuplan
