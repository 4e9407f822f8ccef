// gpuplan import --check: a checkpoint's tensors beside the parameters that are planned.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/shape.h"
#include "estimator/spec/model.h"
#include "tools/importers/safetensors.h"

namespace gpuplan {

struct PlannedParameter {
  std::string name;  // "transformer.h.0.ln_1.weight"
  Shape shape;
};

struct PlannedParameters {
  std::vector<PlannedParameter> own;  // in the order of model.parameters()
  std::vector<std::string> shared;    // "lm_head.weight": those that are another layer's
};

/// Throws Error for a model that cannot be planned.
PlannedParameters planned_parameters(const Model& model);

struct WeightCheck {
  std::size_t found = 0;             // with their shapes, or by name where no shape is known
  std::size_t shapes_unknown = 0;    // of those
  std::int64_t elements = 0;         // of the stored tensors whose shapes are known
  std::vector<std::string> missing;  // "wte.weight [50257, 768]"
  std::vector<std::string> differing;
  std::vector<std::string> extra;
  std::vector<std::string> shared;  // stored, though another layer's
  bool equal() const { return missing.empty() && differing.empty() && extra.empty(); }
};

/// A checkpoint of the model without its head ("h.0.ln_1.weight") is one of the model with it
/// ("transformer.h.0.ln_1.weight"), as from_pretrained takes it.
WeightCheck check_weights(const PlannedParameters& planned, const StoredTensors& stored);

/// What is said of it; at most 10 lines of each kind.
std::string weight_check_text(const WeightCheck& check, const StoredTensors& stored, const std::string& file,
                              const std::string& model);

}  // namespace gpuplan
