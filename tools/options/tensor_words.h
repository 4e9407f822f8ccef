// --tp: how many ranks share each layer, and how what is between the layers lies.
#pragma once

#include <string>

#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// The help of --tp.
constexpr const char* kTensorHelp =
    "Tensor parallelism: ranks per layer, of Llama, Mistral, Mixtral, Qwen and Gemma as transformers does it; "
    "N,sequence,loss: with sequence and loss parallelism, as torchtitan does it; also with --fsdp and --pp-schedule; "
    "of a GPT by Megatron-LM's formulas, as a table of stages";

/// "4", "4,sequence" or "4,sequence,loss" into a strategy; one rank for "". Throws Error, of kind usage, for what is
/// not understood or said twice, and for a plan that one rank alone has.
void read_tensor(const std::string& text, Strategy& strategy);

}  // namespace gpuplan
