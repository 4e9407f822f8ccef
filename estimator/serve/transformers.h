// A start of transformers 5.23's own server, continuous batching (transformers serve --continuous-batching), with the
// attention that PyTorch has (sdpa), as it is without flash-attn.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

/// Bytes that its memory is divided into (generation/continuous_batching/cache.py, PagedAttentionMemoryHandler).
struct TransformersCache {
  std::int64_t sectors = 0;  // of tokens to keep; 0 or less: there is no room
  std::int64_t sector_tokens = 256;
  std::int64_t sector_bytes = 0;
  std::int64_t batch = 0;   // activations of a step, and what it is given
  std::int64_t logits = 0;  // of the last token of each request
  std::int64_t reads = 0;   // keys and values as attention reads them, repeated for each head
  std::int64_t masks = 0;   // of a step's tokens and all that are kept
};

/// From `available` bytes; `batched_tokens` of a step, `requests` at a time.
TransformersCache transformers_cache(const ServedModel& model, std::int64_t available, std::int64_t batched_tokens,
                                     std::int64_t requests);

/// On one GPU, whose memory is known. Throws Error (usage) for settings that it does not have.
EngineStart start_transformers(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
