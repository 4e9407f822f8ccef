// How many of a model's blocks each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// What a stage that torch.distributed.pipelining runs has of the model, and of its micro-batches at once.
struct StagePart {
  std::int64_t first_block = 0, blocks = 0, all_blocks = 0;
  std::int64_t in_flight = 0;
  bool copies_embedding = false;
};

/// How many blocks each stage has of so many: as PipelineSettings says. Throws Error, of kind usage, where there are
/// too few, or a list does not add up.
std::vector<std::int64_t> blocks_of_stages(std::int64_t blocks, const Strategy& strategy);

/// A stage of each kind: the first one, the last one, and of those between with as many blocks the first, which has the
/// most micro-batches in flight.
std::vector<std::int64_t> kinds_of_stages(std::int64_t blocks, const Strategy& strategy);

}  // namespace gpuplan
