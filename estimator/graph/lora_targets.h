// Which layers of a model `lora:` adapts, as peft finds them (peft/tuners/tuners_utils.py, check_target_module_exists).
#pragma once

#include <string>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan {

class LoraTargets {
 public:
  /// `lora` must outlive this; null: nothing is adapted.
  explicit LoraTargets(const Lora* lora) : lora_(lora), used_(lora != nullptr ? lora->targets.size() : 0, 0) {}

  /// The model has adapters, and everything else is frozen.
  bool given() const { return lora_ != nullptr; }
  const Lora& lora() const { return *lora_; }
  /// Whether this layer is a target. Throws Error where it is one that cannot be adapted.
  bool take(const LayerDef& def, const Node& node, const std::string& path);
  /// Throws Error for a target that no layer was.
  void check_all_taken(std::span<const Layer> layers) const;

 private:
  const Lora* lora_;
  std::vector<char> used_;  // one a target
};

}  // namespace gpuplan
