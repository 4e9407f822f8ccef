#include "estimator/serve/transformers.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/serve/engine_texts.h"

namespace gpuplan {
namespace {

const char* const kTransformersServer = "transformers 5.23";
constexpr std::int64_t kActivation = 2;  // bytes of bf16 and fp16
constexpr std::int64_t kPageTokens = 256;
constexpr double kMemoryPercent = 0.9;  // without processors of logits (initialization.py)

void refuse_what_transformers_lacks(const ServedModel& model, const ServeSettings& settings) {
  refuse_flag(settings.tensor_ranks > 1, "--tp", kTransformersServer,
              "one GPU is planned; --engine vllm shares layers");
  refuse_flag(settings.eager, "--enforce-eager", kTransformersServer,
              "with PyTorch's own attention it captures no graphs");
  refuse_flag(settings.compiled_before, "--compiled-before", kTransformersServer,
              "its cache is the same at every start");
  refuse_flag(settings.fp8_cache, "--kv fp8", kTransformersServer, "its cache has the type of the model");
  refuse_flag(settings.adapters > 0, "--lora", kTransformersServer, "--engine vllm plans adapters");
  refuse_flag(settings.weights != WeightForm::plain, "--weights", kTransformersServer, "--weights plain");
  refuse_windows(model, kTransformersServer);
  const ServedAttention& first = model.layers.front().attention;
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    if (a.latent > 0 || a.key_size != a.value_size || a.kv_heads != first.kv_heads || a.key_size != first.key_size)
      throw Error(std::string(kTransformersServer) + " has a cache of equal heads in all layers, which " + model.name +
                      " has not",
                  ErrorKind::usage)
          .help("--engine vllm plans it");
  }
}

// Each parameter as PyTorch's allocator rounds it: from_pretrained() loads them one by one.
std::int64_t plain_bytes(const ServedModel& model) {
  constexpr std::int64_t kSegment = std::int64_t{2} << 20;
  return round_up(checked_mul(model.parameters(), kActivation), kSegment);
}

}  // namespace

TransformersCache transformers_cache(const ServedModel& model, std::int64_t available, std::int64_t batched_tokens,
                                     std::int64_t requests) {
  constexpr std::int64_t kAlignment = 128, kIndex = 8, kTrash = 2;
  const ServedAttention& a = model.layers.front().attention;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t token_bytes = 2 * a.kv_heads * a.key_size * kActivation;
  TransformersCache out;
  out.sector_tokens = kPageTokens;
  out.sector_bytes = std::lcm(checked_mul(kPageTokens * token_bytes, layers), kAlignment);
  // bytes_per_batch_token: hidden states, queries, keys and values, and these of every head; input rows and indices.
  const std::int64_t at_peak = (2 * a.heads + a.kv_heads) * a.key_size * kActivation;
  const std::int64_t step = (model.hidden + a.heads * a.key_size) * kActivation + token_bytes + at_peak;
  constexpr std::int64_t kStepIndices = 7 * 4 + 4 + 2 * kIndex;
  out.batch = checked_mul(batched_tokens, step + kStepIndices);
  out.logits = checked_mul(requests, model.hidden * kActivation + model.vocabulary * 4);  // logits_to_keep, in fp32
  const std::int64_t read = kPageTokens * (at_peak + kIndex);                             // bytes_per_cache_token
  const std::int64_t cost = out.sector_bytes + read;
  const std::int64_t rest = available - kTrash * out.sector_bytes - out.logits - out.batch;
  out.sectors = rest > 0 ? rest / cost : 0;
  const auto masks = [&](std::int64_t sectors) {
    return checked_mul(kActivation * batched_tokens, sectors * kPageTokens + batched_tokens);
  };
  out.sectors -= ceil_div(masks(out.sectors), cost + masks(out.sectors + 1) - masks(out.sectors));
  if (out.sectors <= 0) return out;
  out.masks = masks(out.sectors);
  out.reads = out.sectors * read;
  return out;
}

EngineStart start_transformers(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  refuse_what_transformers_lacks(model, settings);
  constexpr std::int64_t kBatchTokens = 8192, kRequests = 1024;
  EngineStart start;
  start.engine = std::string(kTransformersServer) + " (sdpa)";
  start.limits = {.block_tokens = kPageTokens,
                  .sequences = settings.sequences.value_or(kRequests),
                  .batched_tokens = settings.batched_tokens.value_or(kBatchTokens),
                  .length = served_length(model, settings, "the model has no positions beyond")};
  start.gpu_bytes = usable_bytes(gpu);
  start.utilization = settings.utilization.value_or(kMemoryPercent);
  start.weights_bytes = plain_bytes(model);
  start.shared_bytes = start.gpu_bytes - gpu.context_bytes.value_or(kAssumedContextBytes) - start.weights_bytes;
  start.shared_note = "that are free after " + format_bytes(start.weights_bytes) + " of weights";
  if (start.shared_bytes < 0) {
    start.error = "torch.OutOfMemoryError: CUDA out of memory, as the weights are loaded, which take " +
                  gib(start.weights_bytes) + " GiB";
    start.shared_bytes = 0;
    return start;
  }
  start.consumed_bytes = start.weights_bytes;
  start.requested_bytes = static_cast<std::int64_t>(static_cast<double>(start.shared_bytes) * start.utilization);
  const TransformersCache cache =
      transformers_cache(model, start.requested_bytes, start.limits.batched_tokens, start.limits.sequences);
  start.block_bytes = cache.sector_bytes;
  start.parts = {{"steps", cache.batch, "activations of " + format_count(start.limits.batched_tokens) + " tokens"},
                 {"logits", cache.logits, "of " + format_count(start.limits.sequences) + " requests"}};
  if (cache.sectors <= 0) {
    start.error = "ValueError: Invalid values: max_batch_tokens = " + std::to_string(start.limits.batched_tokens) +
                  ", num_sectors = " + std::to_string(cache.sectors);
    return start;
  }
  start.parts.push_back({"reads", cache.reads, "keys and values that attention repeats for each of its heads"});
  start.parts.push_back({"masks", cache.masks, "of a step's tokens and all that the cache has"});
  start.parts.push_back({"padding", 2 * cache.sector_bytes, "two blocks of the cache"});
  start.starts = true;
  start.blocks = cache.sectors;
  start.cache_bytes = checked_mul(cache.sectors, cache.sector_bytes);
  start.limits.cache_tokens = cache.sectors * kPageTokens;
  start.sequences_at_length = static_cast<double>(start.limits.cache_tokens) / static_cast<double>(start.limits.length);
  return start;
}

}  // namespace gpuplan
