// Small models with everything that running them on a device takes.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "estimator/distributed/rank_step.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/model.h"
#include "validate/executor/execution.h"

namespace gpuplan {

/// A plan and what it was made of. It stays where it is: executions refer to it.
struct Executable {
  Model model;
  RankStep step;

  const Schedule& schedule() const { return step.schedule(); }
  const Calls& calls() const { return step.micro_batches.calls.front(); }
};
std::unique_ptr<Executable> executable(Model model, const RunConfig& run, const Gpu& gpu);

/// The spec of configs/models with other values of its variables.
Model small_zoo_model(const std::string& name, std::initializer_list<Variable> set);

/// By name: "mlp", "cnn", "unet", "gpt2", "bert", "vit", "llama", each of some thousand weights at most.
Model small_model(const std::string& name);
std::vector<std::string> small_models();
/// Of the assumed GPU, or one of capability 9.0.
Gpu ampere();
Gpu hopper();

}  // namespace gpuplan
