// How many of a model's blocks each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// What a rank of torch.distributed.pipelining has of the model, and of its micro-batches at once.
struct StagePart {
  struct Stage {
    std::int64_t number = 0, first_block = 0, blocks = 0;
  };
  std::vector<Stage> stages;
  std::int64_t all_blocks = 0;
  std::int64_t in_flight = 0;  // of all its stages
  bool copies_embedding = false;
};

/// The stages of the rank of `strategy`, by their numbers.
std::vector<std::int64_t> stages_of_rank(const Strategy& strategy);

/// How many blocks each stage has of so many: as PipelineSettings says. Throws Error, of kind usage, where there are
/// too few, or a list does not add up.
std::vector<std::int64_t> blocks_of_stages(std::int64_t blocks, const Strategy& strategy);

/// A rank of each kind, by its place in the pipeline: the first one, the last one, and of those between whose stages
/// have as many blocks the first, which has the most micro-batches in flight.
std::vector<std::int64_t> kinds_of_stages(std::int64_t blocks, const Strategy& strategy);

}  // namespace gpuplan
