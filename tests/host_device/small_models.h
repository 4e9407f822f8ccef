// Small models with everything that walking them on a device takes.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/model.h"
#include "validate/executor/walk.h"

namespace gpuplan {

/// A plan and what it was made of. It stays where it is: the walk refers to it.
struct Executable {
  Model model;
  RunConfig run;
  Gpu gpu;
  Graph graph;
  Passes passes;
  OptimizerWork optimizer;

  Walk walk() const { return {{graph, passes.schedules, optimizer, run, gpu}, passes.calls}; }
  const Schedule& schedule() const { return passes.schedules.front(); }
  const Calls& calls() const { return passes.calls.front(); }
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
