// A forward of vLLM's own decoder as Inductor compiles it, allocation by allocation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/serve/engine_memory.h"
#include "estimator/serve/served_model.h"

namespace gpuplan {

constexpr std::int64_t kServedElement = 2;  // bytes of bf16 and fp16

/// What one of `ranks` has of `whole`.
inline std::int64_t rank_share(std::int64_t whole, std::int64_t ranks) { return ceil_div(whole, ranks); }

/// Elements of one token in the layer that is widest, of one rank.
struct ForwardWidths {
  std::int64_t hidden = 0;
  std::int64_t queries = 0, keys = 0;  // of attention's result, and of the keys that rotary embedding copies
  std::int64_t attention_input = 0;    // queries, keys and values
  std::int64_t mlp_input = 0, mlp_inner = 0;
  bool latent = false;  // MLA, which turns a part of each head in place
};
ForwardWidths forward_widths(const ServedModel& model, std::int64_t ranks);

/// `tokens` through all layers. `cold`: bytes that Inductor's benchmark writes to empty the cache of level 2, at the
/// first call of the activation. `scratch`: what attention takes while it runs, all at a time.
void run_forward(EngineMemory& memory, const ServedModel& model, std::int64_t ranks, std::int64_t tokens,
                 std::int64_t cold, std::span<const std::int64_t> scratch = {});

}  // namespace gpuplan
