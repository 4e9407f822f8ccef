// What making a model and its first batch allocates, in PyTorch's order.
#pragma once

#include "estimator/allocator/loop_programs.h"

namespace gpuplan {

void build_model(const RunningLoop& loop, PlacedBlocks& blocks, OptimizerPrograms& optimizer,
                 CollectivePrograms& collectives);

}  // namespace gpuplan
