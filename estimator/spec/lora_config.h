// peft's LoraConfig, as `lora:` of a model spec or --lora says it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

/// The target that means every Linear and Conv1D but the model's head (peft/tuners/tuners_utils.py,
/// _maybe_include_all_linear_layers).
constexpr std::string_view kAllLinear = "all-linear";

/// Every parameter is frozen, and each Linear and Conv1D that is a target gets two matrices of this rank beside its
/// weight, which are trained. A target is the end of a module's path, as peft matches it ("q_proj", "attn.c_proj"), a
/// pattern of the whole path (* within a name, ** across them), or kAllLinear.
struct Lora {
  std::int64_t rank = 8;
  double alpha = 8;  // the adapter's result times alpha / rank
  double dropout = 0;
  bool dora = false;
  std::vector<std::string> targets = {};
  std::vector<std::string> saved = {};        // modules_to_save: ends of paths of modules that are trained as a copy
  std::vector<SourceMark> target_marks = {};  // one each, of a spec
  SourceMark mark = {};
};

}  // namespace gpuplan
