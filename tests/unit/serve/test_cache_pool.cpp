#include <doctest/doctest.h>

#include "estimator/serve/cache_pool.h"

namespace gpuplan {
namespace {

ServedModel layers_of(int all, int windowed, std::int64_t window) {
  ServedModel model;
  const ServedAttention attention{.heads = 8, .kv_heads = 2, .key_size = 64, .value_size = 64, .window = 0};
  for (int i = 0; i < all; ++i) model.layers.push_back({.attention = attention, .matrices = {}});
  for (int i = 0; i < windowed; ++i) {
    model.layers.push_back({.attention = attention, .matrices = {}});
    model.layers.back().attention.window = window;
  }
  return model;
}

TEST_CASE("layers of one kind share one table of blocks") {
  // 16 tokens of 2 heads of 64 keys and 64 values in bf16, of 10 layers.
  const CachePool pool = cache_pool(layers_of(10, 0, 0), 2, 1);
  CHECK(pool.groups.size() == 1);
  CHECK(pool.block_bytes == 16 * 2 * 128 * 2 * 10);
  CHECK(pool.blocks_of(100, 0) == 7);  // 100 / 16
}

TEST_CASE("kinds of layers are split into groups of the rarest one's size") {
  // 4 that see all and 22 with a window: 1 + ceil(22 / 4) groups of 4.
  const CachePool pool = cache_pool(layers_of(4, 22, 512), 2, 1);
  CHECK(pool.groups.size() == 7);
  CHECK(pool.block_bytes == 16 * 2 * 128 * 2 * 4);
  // 32768 / 16 of the first; of each other 511 + 1000 tokens that are held, and one for where the window begins.
  CHECK(pool.blocks_of(32768, 1000) == 2048 + 6 * (95 + 1));
}

TEST_CASE("kinds that are almost as frequent are one group each") {
  CHECK(cache_pool(layers_of(12, 13, 128), 2, 1).groups.size() == 2);
}

TEST_CASE("ranks share the heads, of which each has one at least") {
  CHECK(cache_pool(layers_of(1, 0, 0), 2, 2).block_bytes == 16 * 1 * 128 * 2);
  CHECK(cache_pool(layers_of(1, 0, 0), 2, 8).block_bytes == 16 * 1 * 128 * 2);
  CHECK(cache_pool(layers_of(1, 0, 0), 1, 1).block_bytes == 16 * 2 * 128);
}

}  // namespace
}  // namespace gpuplan
