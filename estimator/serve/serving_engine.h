// The engines that serve.
#pragma once

#include <cstdint>

namespace gpuplan {

enum class ServingEngine : std::uint8_t { vllm, transformers, llama_cpp };

}  // namespace gpuplan
