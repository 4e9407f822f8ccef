// The engines that serve.
#pragma once

#include <cstdint>

namespace gpuplan {

enum class ServingEngine : std::uint8_t { vllm, sglang, transformers, llama_cpp };

}  // namespace gpuplan
