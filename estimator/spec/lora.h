// `lora: {rank: 8, alpha: 16, dropout: 0.0, targets: [q_proj, v_proj]}`: the model under peft's LoraConfig and
// get_peft_model. Numbers may be expressions of the model's variables.
#pragma once

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// Throws Error for an unknown key, a missing part, or a target that is no module's name or pattern.
LoraSyntax read_lora(const YamlNode& node, const Names& names);

/// Throws Error for a rank below 1 or a dropout outside 0 <= p < 1.
Lora evaluate_lora(const LoraSyntax& syntax, const Scope& scope);

}  // namespace gpuplan
