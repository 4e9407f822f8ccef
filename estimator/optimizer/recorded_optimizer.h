// An optimizer without rules of its own here: what its step allocates is what PyTorch allocated when it ran.
#pragma once

#include <span>
#include <string>

#include "estimator/base/shape.h"
#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// What an optimizer is given of a model, in the order of model.parameters().
struct NamedParameter {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  Shape shape;
  DType dtype = DType::fp32;
  bool has_gradient = true;
};

/// The slots of the programs are those of one table: a state that a later step makes anew has the slot of the one whose
/// place it takes, and free_gradient counts the parameters that have a gradient.
struct RecordedOptimizer {
  OptimizerProgram construction, first, steady;
};

class OptimizerRecorder {
 public:
  OptimizerRecorder() = default;
  OptimizerRecorder(const OptimizerRecorder&) = delete;
  OptimizerRecorder& operator=(const OptimizerRecorder&) = delete;
  virtual ~OptimizerRecorder() = default;

  /// As --opt has it.
  virtual std::string name() const = 0;
  /// May be called by several threads. Throws Error where it cannot be recorded, or refuses the parameters.
  virtual RecordedOptimizer record(std::span<const NamedParameter> parameters) const = 0;
};

}  // namespace gpuplan
