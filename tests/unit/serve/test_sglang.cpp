// SGLang's rules by hand, and its published starts, which give the free memory before and after the weights.
#include <doctest/doctest.h>

#include <cmath>

#include "estimator/base/error.h"
#include "estimator/serve/sglang.h"
#include "tests/support/engine_starts.h"

namespace gpuplan {
namespace {

Gpu gpu_with(std::int64_t mib) {
  Gpu gpu = assumed_gpu();
  gpu.memory_bytes = mib << 20;
  return gpu;
}

TEST_CASE("SGLang's share of the memory is what its reserve leaves") {
  const auto fraction = [](std::int64_t mib, std::int64_t ranks, bool latent) {
    ServeSettings settings;
    settings.tensor_ranks = ranks;
    return sglang_defaults(gpu_with(mib), settings, latent).static_fraction;
  };
  // H100: 512 + 1.5 * 8192 + 128 + 2 * 256 + 8 MiB for each of 58 graphs = 13,904 of 81,559.
  CHECK(fraction(81559, 1, false) == 0.830);
  // Eight ranks: 1,024 for these, 2 * 512 for the graphs of steps that decode.
  CHECK(fraction(81559, 8, false) == 0.812);
  CHECK(fraction(81559, 8, true) == 0.799);  // MLA: 1,536 for the graphs of prompts
  // B200: 512 + 24,576 + 128 + 1,024 + 8 * 74 = 26,832 of 183,359.
  CHECK(fraction(183359, 1, false) == 0.854);
  // 24 GB: 512 + 6,144 + 128 + 96 + 8 * 50 = 7,280 of 24,564.
  CHECK(fraction(24564, 1, false) == 0.704);
  CHECK(sglang_defaults(gpu_with(24564), {}, false).chunk == 4096);
  ServeSettings eager, chunked;
  eager.eager = true;
  chunked.batched_tokens = 8192;
  // Without graphs: 512 + 6,144 + 128 = 6,784.
  CHECK(sglang_defaults(gpu_with(24564), eager, false).static_fraction == 0.724);
  // A larger chunk takes more: 512 + 12,288 + 128 + 96 + 8 * 58 = 13,488.
  CHECK(sglang_defaults(gpu_with(24564), chunked, false).static_fraction == 0.451);
}

TEST_CASE("tokens follow from the free memory before and after the weights, as SGLang logs both") {
  struct Start {
    double before, after, fraction;  // GiB, of which two decimals are printed
    std::int64_t token_bytes, page, tokens;
  };
  // https://github.com/sgl-project/sglang/pull/13023, pull/4760, pull/4826; B200: default settings, 2026-04.
  const Start starts[] = {{44.00, 28.91, 0.851, 131072, 1, 183133},
                          {78.59, 63.48, 0.88, 131072, 1, 442750},
                          {139.21, 131.08, 0.836, 139264, 1, 834615},
                          {177.57, 162.30, 0.854, 147456, 64, 992896}};
  constexpr double kGibibyte = 1 << 30;
  for (const Start& s : starts) {
    CAPTURE(s.tokens);
    const auto bytes = [](double gib) { return static_cast<std::int64_t>(gib * kGibibyte); };
    const std::int64_t tokens = sglang_tokens(bytes(s.before), bytes(s.after), s.fraction, s.token_bytes, s.page);
    // What rounding to 0.01 GiB can make of both, and a page more: the B200's log is two pages lower, rounding is one.
    const double rounding = 0.005 * (1 + (1 - s.fraction)) * kGibibyte / static_cast<double>(s.token_bytes);
    CHECK(std::abs(static_cast<double>(tokens - s.tokens)) <= rounding + 2 * static_cast<double>(s.page));
    CHECK(tokens % s.page == 0);
  }
}

TEST_CASE("weights that leave nothing are refused in SGLang's words, with a larger share as the way out") {
  const EngineStart start =
      serving_start("qwen3_30b_a3b", "h100", "--engine sglang --mem-fraction-static 0.7 --max-len 8192");
  CHECK_FALSE(start.starts);
  CHECK(start.error.find("Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7") !=
        std::string::npos);
  REQUIRE_FALSE(start.hints.empty());
  CHECK(start.hints.front().flag == "--utilization 0.85");
}

TEST_CASE("SGLang starts with fewer tokens than a sequence may have, which is said") {
  const EngineStart start = serving_start("llama3_1_8b", "rtx4090", "--engine sglang --mem-fraction-static 0.88");
  CHECK(start.starts);
  REQUIRE(start.warnings.size() == 1);
  CHECK(start.warnings.front().find("rejects requests of more than") != std::string::npos);
}

TEST_CASE("SGLang is refused with what is not planned of it") {
  CHECK_THROWS_WITH_AS(serving_start("gemma3_1b", "h100", "--engine sglang"), doctest::Contains("have a window"),
                       Error);
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b", "h100", "--engine sglang --lora 4x16"),
                       doctest::Contains("not planned with --lora"), Error);
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b_awq", "h100", "--engine sglang"), doctest::Contains("int4"), Error);
}

TEST_CASE("engines whose cache is what a run of them leaves are refused by name") {
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b", "h100", "--engine vllm-v0"),
                       doctest::Contains("--engine vllm-v0 is not planned"), Error);
  CHECK_THROWS_WITH_AS(serving_start("llama3_1_8b", "h100", "--engine tensorrt-llm"),
                       doctest::Contains("--engine tensorrt-llm is not planned"), Error);
}

}  // namespace
}  // namespace gpuplan
