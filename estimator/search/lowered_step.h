// A step as it was lowered, before anything of it is placed in memory, with every value that it consists of: so that
// the steps of two batches can be compared whole.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/passes.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Can be moved, and not copied: the schedules refer to the graph's operations.
struct LoweredStep {
  Graph graph;
  Passes passes;  // its calls only where they are asked for
  OptimizerWork optimizer;
  std::int64_t flops = 0;  // Report::compute.step_flops

  LoweredStep() = default;
  LoweredStep(LoweredStep&&) = default;
  LoweredStep& operator=(LoweredStep&&) = default;
};

/// `timed`: with the calls, which the clock reads. Throws Error for a model or a run that PyTorch would refuse.
LoweredStep lower_step(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, bool timed);

/// In the order of the step's parts; of steps that differ in their batch the same places mean the same.
struct StepValues {
  std::vector<std::int64_t*> sizes;  // bytes, elements, shapes, strides: into the step, until it is changed or ends
  std::vector<std::int64_t> others;  // types, names, indices, counts; sizes that follow no line in the batch
};

/// All but two: Schedule::scratch, which is asked for again where sizes change, and the arguments that are no tensors
/// (Graph::numbers, Calls::numbers), which only who executes the step reads.
StepValues values_of(LoweredStep& step);

}  // namespace gpuplan
