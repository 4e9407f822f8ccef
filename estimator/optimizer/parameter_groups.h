// The parameters that an optimizer is given, in its groups.
#pragma once

#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/optimizer/optimizer.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

struct Parameters {
  std::vector<OptimizerParameter> trained;  // what the optimizer was given
  std::vector<OptimizerParameter> stepped;  // what has a gradient
};

/// "model.layers.0.mlp.up_proj.weight"
std::string path_of(const Graph& graph, const ParameterTensor& parameter);

/// One group, in the order of model.parameters(); of transformers' Trainer two (Trainer.get_decay_parameter_names):
/// what weight decay applies to, and biases and norms; embeddings keep bitsandbytes' states of 32 bits there
/// (Trainer.create_optimizer).
std::vector<Parameters> parameters_of(const Graph& graph, const Schedule& schedule, Like like);

}  // namespace gpuplan
