// One forward of an engine's scheduler: parts of prompts, and one token of each sequence that decodes.
#pragma once

#include <cstdint>
#include <functional>

namespace gpuplan {

struct EngineStep {
  std::int64_t prefill_tokens = 0;  // of prompts, all sequences together
  double prefill_pairs = 0;         // (token, token that it attends to) of these
  std::int64_t decoding = 0;        // sequences that get one token each
  std::int64_t context_tokens = 0;  // in the caches of these, all together

  std::int64_t tokens() const { return prefill_tokens + decoding; }
};

/// Seconds from the launch of a step to the tokens that it makes.
using StepSeconds = std::function<double(const EngineStep&)>;

/// What an engine that has started can hold and schedule.
struct EngineLimits {
  std::int64_t cache_tokens = 0;       // of all sequences
  std::int64_t block_tokens = 16;      // that the cache is handed out in
  std::int64_t sequences = 256;        // at a time (--max-num-seqs)
  std::int64_t batched_tokens = 2048;  // of a step (--max-num-batched-tokens)
  std::int64_t length = 0;             // of a sequence, prompt and answer (--max-model-len)
};

}  // namespace gpuplan
