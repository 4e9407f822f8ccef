#include "estimator/graph/lora_targets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/glob.h"

namespace gpuplan {
namespace {

constexpr std::size_t kNamesShown = 12;

bool is_adaptable(std::string_view type) { return type == "Linear" || type == "Conv1D"; }

bool is_pattern(const std::string& target) { return target.find_first_of("*?") != std::string::npos; }

bool is_end_of(const std::string& target, const std::string& path) {
  return path == target ||
         (path.size() > target.size() && path.ends_with(target) && path[path.size() - target.size() - 1] == '.');
}

}  // namespace

// A pattern of the whole path takes what can be adapted; a name says that it can.
bool LoraTargets::is_meant(const std::string& target, const LayerDef& def, const Node& node,
                           const std::string& path) const {
  if (target == kAllLinear) return is_adaptable(def.name) && node.tie.empty() && path != head_;
  return is_pattern(target) ? is_adaptable(def.name) && matches_glob(path, target) : is_end_of(target, path);
}

// Targets of --lora have no place in the spec.
Error LoraTargets::refused(std::size_t target, const std::string& reason) const {
  if (target < lora_->target_marks.size()) return Error(reason).at(lora_->target_marks[target]);
  return Error("--lora: " + reason, ErrorKind::usage);
}

bool LoraTargets::take(const LayerDef& def, const Node& node, const std::string& path) {
  if (lora_ == nullptr) return false;
  bool found = false;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (!is_meant(lora_->targets[i], def, node, path)) continue;
    if (!is_adaptable(def.name))
      throw refused(i, "the target " + path + " is " + std::string(def.name))
          .help("lora adapts Linear and Conv1D layers");
    if (!node.tie.empty())
      throw refused(i, "the target " + path + " shares its weights with " + node.tie)
          .help("a layer with a weight of its own can be adapted");
    used_[i] = 1;
    found = true;
  }
  return found;
}

bool LoraTargets::save(const std::string& path) {
  bool found = false;
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    if (!path.ends_with(lora_->saved[i])) continue;  // as peft matches it (utils/other.py, _set_trainable)
    saved_[i] = 1;
    found = true;
  }
  return found;
}

void LoraTargets::check_all_saved(std::span<const Layer> layers) const {
  const auto missing = std::ranges::find(saved_, 0);
  if (missing == saved_.end()) return;
  std::vector<std::string> names;
  for (const Layer& l : layers)
    if (l.parameters > 0) names.push_back(l.name.substr(l.name.rfind('.') + 1));
  const std::string& name = lora_->saved[static_cast<std::size_t>(missing - saved_.begin())];
  throw Error("--lora: no layer with weights has a path that ends in \"" + name + "\"" + did_you_mean(name, names),
              ErrorKind::usage)
      .help("save= names layers, such as " + (names.empty() ? "lm_head" : names.back()));
}

// Mixtures of experts whose experts were Linear modules before transformers 5: whoever targets those adapts their
// stacked weights and their router (peft/utils/transformers_weight_conversion.py, _convert_peft_config_moe; not
// gpt_oss, whose experts have biases, nor Llama 4).
void LoraTargets::check_no_experts(std::span<const Layer> layers) const {
  constexpr std::array<std::string_view, 8> kConverted = {kAllLinear,  "gate", "gate_proj", "up_proj",
                                                          "down_proj", "w1",   "w2",        "w3"};
  const auto experts = std::ranges::find_if(layers, [](const Layer& l) {
    return l.type == "MixtureOfExperts" || l.type == "Experts" ||
           (l.type == "Parameter" && l.name.ends_with(".mlp.experts.gate_up_proj"));
  });
  if (experts == layers.end()) return;
  if (std::ranges::find(layers, experts->name + "_bias", &Layer::name) != layers.end()) return;
  for (std::size_t i = 0; i < lora_->targets.size(); ++i) {
    const std::string_view target = std::string_view(lora_->targets[i]).substr(lora_->targets[i].rfind('.') + 1);
    if (std::ranges::find(kConverted, target) == kConverted.end()) continue;
    std::string others;
    for (const Layer& l : layers) {
      const std::string name = l.name.substr(l.name.rfind('.') + 1);
      if (!is_adaptable(l.type) || l.name.find(".self_attn.") == std::string::npos) continue;
      if (("+" + others + "+").find("+" + name + "+") == std::string::npos)
        others += (others.empty() ? "" : "+") + name;
    }
    throw refused(i, "for the target " + lora_->targets[i] + " peft adapts the experts' stacked weights (" +
                         experts->name + "), which gpuplan has no rules for")
        .help("targets=" + others + " leaves the experts as they are; --peft \"LoraConfig(r=" +
              std::to_string(lora_->rank) + ", target_modules='all-linear')\" runs peft");
  }
}

void LoraTargets::check_all_taken(std::span<const Layer> layers) const {
  if (lora_ == nullptr) return;
  check_all_saved(layers);
  check_no_experts(layers);
  const auto missing = std::ranges::find(used_, 0);
  if (missing == used_.end()) return;
  std::vector<std::string> names;
  for (const Layer& l : layers) {
    if (!is_adaptable(l.type)) continue;
    std::string name = l.name.substr(l.name.rfind('.') + 1);  // the whole of it where there is no dot
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  const auto i = static_cast<std::size_t>(missing - used_.begin());
  std::string list;
  for (std::size_t n = 0; n < std::min(names.size(), kNamesShown); ++n) list += (n > 0 ? ", " : "") + names[n];
  if (lora_->targets[i] == kAllLinear)
    throw refused(i,
                  "the model has no Linear or Conv1D layer" + std::string(list.empty() ? "" : " but its head, " + list))
        .help(list.empty() ? "lora adapts Linear and Conv1D layers" : "targets=" + list + " adapts the head");
  const std::string& target = lora_->targets[i];
  if (is_pattern(target))
    throw refused(i, "no Linear or Conv1D layer's path is as \"" + target + "\"")
        .help("a pattern is of the whole path: * stays within a name, ** goes across names, as in **." +
              (names.empty() ? "q_proj" : names.front()));
  throw refused(i, "no layer of the model is called \"" + target + "\"" + did_you_mean(target, names))
      .help(list.empty() ? "it has no Linear or Conv1D layers" : "it has " + list);
}

}  // namespace gpuplan
