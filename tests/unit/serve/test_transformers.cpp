// Continuous batching beside transformers 5.23.0 itself.
#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "estimator/serve/transformers.h"
#include "tests/support/engine_starts.h"

namespace gpuplan {
namespace {

// Run on the CPU: PagedAttentionMemoryHandler of 5.23.0 with these models' configurations, sdpa, bf16, without
// asynchronous batching, logits_to_keep, and get_available_memory() replaced by the GiB here;
// infer_max_batch_tokens_and_num_sectors(), attention_mask_bytes(), bytes_per_cache_sector.
TEST_CASE("the cache has as many sectors as transformers infers, of the same cost") {
  struct Case {
    const char* model;
    std::int64_t gib, batched_tokens, requests, sectors, masks, cost;
  };
  const Case cases[] = {{"llama3_1_8b", 60, 8192, 1024, 1491, 6387924992, 38275072},
                        {"qwen3_8b", 20, 2048, 64, 488, 520093696, 42469376},
                        {"llama3_2_1b", 10, 8192, 256, 688, 3019898880, 10749952},
                        {"qwen2_5_7b", 5, 1024, 1024, 244, 130023424, 18614272},
                        {"qwen3_30b_a3b", 15, 8192, 1024, 444, 1996488704, 29624320}};
  for (const Case& c : cases) {
    CAPTURE(c.model);
    const TransformersCache cache =
        transformers_cache(serving_model(c.model, "h100"), c.gib << 30, c.batched_tokens, c.requests);
    CHECK(cache.sectors == c.sectors);
    CHECK(cache.masks == c.masks);
    CHECK(cache.sector_bytes + cache.reads / cache.sectors == c.cost);
  }
}

TEST_CASE("no room for a sector is transformers' own error") {
  // 1 GiB: "Invalid values: max_batch_tokens = 8192, num_sectors = 0".
  CHECK(transformers_cache(serving_model("llama3_1_8b", "h100"), 1 << 30, 8192, 1024).sectors == 0);
  const EngineStart start = serving_start("llama3_1_8b", "h100", "--engine transformers --utilization 0.01");
  CHECK_FALSE(start.starts);
  CHECK(start.error.find("Invalid values: max_batch_tokens = 8192, num_sectors = ") != std::string::npos);
}

TEST_CASE("transformers is refused with what its server does not have") {
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b", "h100", "--engine transformers --tp 2"),
                       doctest::Contains("not planned with --tp"), Error);
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b", "h100", "--engine transformers --kv fp8"),
                       doctest::Contains("not planned with --kv fp8"), Error);
  CHECK_THROWS_WITH_AS(serving_start("gemma3_1b", "h100", "--engine transformers"), doctest::Contains("have a window"),
                       Error);
}

}  // namespace
}  // namespace gpuplan
