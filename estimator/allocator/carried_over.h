// Between two steps of one loop whose batches differ: what is alive when the next begins.
#pragma once

#include <vector>

#include "estimator/allocator/pool_block.h"
#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// The blocks of `to`'s buffers, by buffer, given those of `from`'s: the model, its gradients, the batch, and what
/// names hold of the last results. Throws Error where the two are not steps of one model, or something else is alive.
std::vector<BlockId> carried_over(const RankStep& from, const RankStep& to, const std::vector<BlockId>& blocks);
/// The same of the model alone, for an evaluation of it.
std::vector<BlockId> model_carried_over(const RankStep& from, const RankStep& to, const std::vector<BlockId>& blocks);

}  // namespace gpuplan
