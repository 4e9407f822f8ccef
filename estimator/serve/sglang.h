// A start of SGLang 0.5.23: its share of the memory (mem_fraction_static), the weights, and the tokens of its cache.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// What SGLang decides from the memory that nvidia-smi shows (arg_groups/memory_hook.py, handle_gpu_memory_settings).
struct SglangDefaults {
  std::int64_t chunk = 0;      // tokens of a step: --chunked-prefill-size
  std::int64_t decoding = 0;   // sequences of the largest CUDA graph of a step that decodes
  double static_fraction = 0;  // of the free memory, for weights and cache: --mem-fraction-static
};
/// `latent`: of a model whose attention caches a latent vector (MLA).
SglangDefaults sglang_defaults(const Gpu& gpu, const ServeSettings& settings, bool latent);

/// As ModelRunner allots them (mem_cache/kv_cache_configurator.py, _profile_available_bytes()): bytes that are free
/// before and after the weights, and bytes a token. Whole pages; 0 or less: there is no room.
std::int64_t sglang_tokens(std::int64_t before, std::int64_t after, double fraction, std::int64_t token_bytes,
                           std::int64_t page);

/// On each of `settings.tensor_ranks` such GPUs, whose memory is known. Throws Error (usage) for settings that SGLang
/// does not have or that are not planned.
EngineStart start_sglang(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
