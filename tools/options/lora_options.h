// --lora r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj: peft's LoraConfig.
#pragma once

#include <string>

#include "estimator/spec/lora_config.h"

namespace gpuplan {

/// Throws Error (usage) for an unknown key and for a value that LoraConfig does not take.
Lora lora_of_flag(const std::string& text);

}  // namespace gpuplan
