// Blocks of a paged cache, as vLLM 0.33 shares them among layers (vllm/v1/core/kv_cache_planning.py).
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/serve/served_model.h"

namespace gpuplan {

/// Layers of one kind that have a table of blocks in common: tables are as long as its tokens.
struct CacheGroup {
  std::int64_t layers = 0;
  std::int64_t window = 0;  // 0: every token is kept
};

struct CachePool {
  std::vector<CacheGroup> groups;  // each takes its blocks from one pool
  std::int64_t block_tokens = 16;
  std::int64_t block_bytes = 0;  // of the layers of one group

  /// That a sequence of `length` tokens needs of all groups. Of a window, blocks go back to the pool as it moves on,
  /// after the steps that are under way: `in_flight` tokens.
  std::int64_t blocks_of(std::int64_t length, std::int64_t in_flight) const;
};

/// `element_bytes` of a cached number; the heads of keys and values are shared by `ranks`, one each at least.
CachePool cache_pool(const ServedModel& model, double element_bytes, std::int64_t ranks);

}  // namespace gpuplan
