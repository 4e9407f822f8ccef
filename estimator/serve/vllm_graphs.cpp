#include <algorithm>

#include "estimator/serve/vllm_forward.h"
#include "estimator/serve/vllm_memory.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMebibyteOfGraph = std::int64_t{1} << 20;  // at least, in the engine's estimate
// Statistics of attention's rows, which take a segment of small blocks in each of three places.
constexpr std::int64_t kAttentionScratch = 6 * kMebibyteOfGraph;

// What attention takes in a captured decode. Of latent vectors queries and results are as wide as these. FlashAttention
// 3, which Hopper runs, splits the contexts into so many parts at most, and has each one's result in fp32
// (AttentionConfig.flash_attn_max_num_splits_for_cuda_graph).
std::vector<std::int64_t> decode_scratch(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes,
                                         std::int64_t tokens) {
  constexpr std::int64_t kSplits = 32;
  std::int64_t width = 0, latent = 0;
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    width =
        std::max(width, rank_share(checked_mul(a.heads, a.latent > 0 ? a.latent_value : a.value_size), sizes.ranks));
    if (a.latent > 0) latent = std::max(latent, rank_share(checked_mul(a.heads, a.latent_value), sizes.ranks));
  }
  std::vector<std::int64_t> out;
  if (latent > 0) out.assign(2, checked_mul(tokens * kServedElement, latent));
  if (gpu.capability_major == 9) out.push_back(checked_mul(kSplits * tokens * 4, width));
  return out;
}

// _set_cudagraph_sizes(): 1, 2, 4, every eighth up to 256, every sixteenth from there.
std::vector<std::int64_t> captured_sizes(const Gpu& gpu, const VllmSizes& sizes) {
  if (sizes.eager) return {};
  const std::int64_t most = std::min(
      {gpu.capability_major == 10 ? std::int64_t{1024} : std::int64_t{512}, 2 * sizes.sequences, sizes.batched_tokens});
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= most; n += n < 4 ? n : n < 8 ? 4 : n < 256 ? 8 : 16) out.push_back(n);
  return out;
}

}  // namespace

std::int64_t vllm_graphs_bytes(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  const std::vector<std::int64_t> captured = captured_sizes(gpu, sizes);
  if (captured.empty()) return 0;
  const auto whole = std::ranges::upper_bound(captured, sizes.sequences) - captured.begin();
  EngineMemory pool(gpu, INT64_MAX), kept(gpu, INT64_MAX), warm(gpu, INT64_MAX);
  run_forward(pool, model, sizes.ranks, captured.back(), 0);
  kept.take(captured.back() * model.hidden * kServedElement);
  if (whole > 0) {
    const std::int64_t largest = captured[static_cast<std::size_t>(whole) - 1];
    const std::int64_t next = captured[static_cast<std::size_t>(std::max<std::ptrdiff_t>(whole - 2, 0))];
    run_forward(pool, model, sizes.ranks, largest, 0, decode_scratch(model, gpu, sizes, largest));
    run_forward(warm, model, sizes.ranks, next, 0, decode_scratch(model, gpu, sizes, next));
  }
  std::int64_t sum = kAttentionScratch + std::max<std::int64_t>(whole - 1, 0) * kMebibyteOfGraph;
  for (EngineMemory* memory : {&pool, &kept, &warm}) sum += memory->allocator().reserved_bytes();
  return sum;
}

}  // namespace gpuplan
