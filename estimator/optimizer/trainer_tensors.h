// What a trainer makes beside the model, the optimizer and the step: batches, labels of their own, and numbers that it
// logs. transformers 5.23, trainer.py; accelerate 1.15, data_loader.py.
#pragma once

#include "estimator/graph/graph.h"
#include "estimator/optimizer/optimizer.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Programs of a loop. The tensors that they leave behind are RunConfig::like's names, bound anew in the next step.
struct TrainerTensors {
  OptimizerProgram begin;         // before the first batch
  OptimizerProgram batch;         // once a step's batch is there
  OptimizerProgram loss;          // once the loss is there
  OptimizerProgram backward;      // after each backward
  OptimizerProgram clipped;       // after the gradients' norm was clipped
  OptimizerProgram end;           // of each micro-batch
  std::int64_t labels_bytes = 0;  // in an evaluation: of labels that are on the device beside the inputs
};

/// Nothing where the loop is that of PyTorch's tutorials.
TrainerTensors trainer_tensors(const Graph& graph, const RunConfig& run);

}  // namespace gpuplan
