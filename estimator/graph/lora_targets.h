// Which layers of a model `lora:` adapts, as peft finds them (peft/tuners/tuners_utils.py, check_target_module_exists).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan {

class LoraTargets {
 public:
  /// `lora` must outlive this; null: nothing is adapted. `head`: the path of the model's head, which is no target of
  /// all-linear.
  explicit LoraTargets(const Lora* lora, std::string head = {})
      : lora_(lora),
        head_(std::move(head)),
        used_(lora != nullptr ? lora->targets.size() : 0, 0),
        saved_(lora != nullptr ? lora->saved.size() : 0, 0) {}

  /// The model has adapters, and everything else is frozen.
  bool given() const { return lora_ != nullptr; }
  const Lora& lora() const { return *lora_; }
  /// Whether this layer is a target. Throws Error where it is one that cannot be adapted.
  bool take(const LayerDef& def, const Node& node, const std::string& path);
  /// Whether peft trains a copy of this module in its place (ModulesToSaveWrapper).
  bool save(const std::string& path);
  /// Throws Error for a target that no layer was.
  void check_all_taken(std::span<const Layer> layers) const;

 private:
  void check_all_saved(std::span<const Layer> layers) const;
  void check_no_experts(std::span<const Layer> layers) const;
  bool is_meant(const std::string& target, const LayerDef& def, const Node& node, const std::string& path) const;
  Error refused(std::size_t target, const std::string& reason) const;

  const Lora* lora_;
  std::string head_;
  std::vector<char> used_;   // one a target
  std::vector<char> saved_;  // one a module to save
};

}  // namespace gpuplan
