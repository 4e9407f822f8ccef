#include "estimator/serve/cache_pool.h"

#include <algorithm>
#include <map>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::int64_t cached_of_rank(const ServedAttention& a, std::int64_t ranks) {
  if (a.latent > 0) return a.latent;  // every rank has all of it
  return std::max<std::int64_t>(1, a.kv_heads / ranks) * (a.key_size + a.value_size);
}

// _get_kv_cache_groups_uniform_page_size(): groups as large as the rarest kind, or as the most frequent one where that
// is less than half as many again.
std::int64_t layers_of_group(const std::map<std::int64_t, std::int64_t>& kinds) {
  std::int64_t least = INT64_MAX, most = 0;
  for (const auto& [window, layers] : kinds) {
    least = std::min(least, layers);
    most = std::max(most, layers);
  }
  return 2 * most < 3 * least ? most : least;
}

}  // namespace

std::int64_t CachePool::blocks_of(std::int64_t length, std::int64_t in_flight) const {
  std::int64_t sum = 0;
  for (const CacheGroup& group : groups) {
    if (group.window == 0) {
      sum += ceil_div(length, block_tokens);
    } else {  // SlidingWindowSpec.max_admission_blocks_per_request(): a window may begin within a block
      const std::int64_t held = checked_add(group.window - 1, in_flight);
      sum += ceil_div(std::min(held, length), block_tokens) + 1;
    }
  }
  return sum;
}

CachePool cache_pool(const ServedModel& model, double element_bytes, std::int64_t ranks) {
  std::map<std::int64_t, std::int64_t> kinds;  // layers by window
  std::int64_t page = 0;
  CachePool out;
  for (const ServedLayer& layer : model.layers) {
    ++kinds[layer.attention.window];
    const double bytes = static_cast<double>(cached_of_rank(layer.attention, ranks) * out.block_tokens) * element_bytes;
    page = std::max(page, static_cast<std::int64_t>(bytes));
  }
  const std::int64_t each = layers_of_group(kinds);
  for (const auto& [window, layers] : kinds)
    for (std::int64_t i = 0; i < ceil_div(layers, each); ++i) out.groups.push_back({each, window});
  out.block_bytes = checked_mul(page, each);
  return out;
}

}  // namespace gpuplan
