// What an engine is asked to start with, and what comes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/serve/engine_step.h"
#include "estimator/serve/serving_engine.h"

namespace gpuplan {

/// How an engine stores the matrices of the layers; embeddings, heads, routers and norms keep their type.
enum class WeightForm : std::uint8_t { plain, fp8, int4_awq, int4_gptq };

struct ServeSettings {
  ServingEngine engine = ServingEngine::vllm;
  std::int64_t length = 0;                     // tokens of a sequence at most; 0: as many as the model was made for
  std::optional<double> utilization;           // share of the memory; the engine's own default otherwise
  std::optional<std::int64_t> batched_tokens;  // of a step; the engine's own default otherwise
  std::optional<std::int64_t> sequences;       // at a time
  std::int64_t tensor_ranks = 1;               // --tensor-parallel-size
  bool eager = false;                          // --enforce-eager
  bool compiled_before = false;                // the engine finds what it compiled at an earlier start
  bool fp8_cache = false;                      // --kv-cache-dtype fp8
  WeightForm weights = WeightForm::plain;
  std::int64_t adapters = 0, adapter_rank = 0;  // --max-loras, --max-lora-rank
};

/// A part of the memory that the engine is given, in the order in which it takes it.
struct MemoryPart {
  std::string name;
  std::int64_t bytes = 0;
  std::string note;
};

/// A flag that makes the engine start, and what comes of it.
struct StartHint {
  std::string flag;
  std::string result;
};

/// Of one GPU; with tensor parallelism all have the same.
struct EngineStart {
  std::string engine;  // "vLLM 0.33.0"
  EngineLimits limits;
  std::int64_t gpu_bytes = 0;        // that CUDA can hand out
  double utilization = 0;            // as asked, or the engine's own
  std::int64_t shared_bytes = 0;     // what it is a share of
  std::string shared_note;           // which bytes these are
  std::int64_t requested_bytes = 0;  // that share
  std::int64_t weights_bytes = 0;    // the model alone
  std::int64_t consumed_bytes = 0;   // what is there once the profile run is over: the model and the engine's states
  std::int64_t profile_bytes = 0;    // the peak of the profile run above that
  std::string profile_peak;          // when it comes
  std::int64_t graphs_bytes = 0;     // the engine's own estimate for its CUDA graphs
  std::int64_t cache_bytes = 0;      // the rest; negative: there is none
  std::int64_t block_bytes = 0, blocks = 0;
  std::vector<MemoryPart> parts;    // of the requested bytes, all but the cache
  std::vector<MemoryPart> outside;  // taken beside the requested bytes
  double sequences_at_length = 0;   // "maximum concurrency"
  bool starts = false;
  std::string error;  // the engine's own text, where it does not start
  std::vector<StartHint> hints;
  std::vector<std::string> warnings;
};

}  // namespace gpuplan
