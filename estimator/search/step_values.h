// All numbers of a step as a flat list, from which affine_step.h interpolates between batches.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/rank_step.h"

namespace gpuplan {

/// In the order of the step's parts; of steps that differ in their batch the same places mean the same.
struct StepValues {
  std::vector<std::int64_t*> sizes;  // bytes, elements, shapes, strides: into the step, until it is changed or ends
  std::vector<std::int64_t> others;  // types, names, indices, counts; sizes that follow no line in the batch
};

/// Of the graph, the schedules and the optimizer of one GPU. All but two: Schedule::scratch, which is asked for again
/// where sizes change, and the arguments that are no tensors, which only who executes the step reads.
StepValues values_of(RankStep& step);

}  // namespace gpuplan
