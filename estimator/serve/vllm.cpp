#include "estimator/serve/vllm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/serve/cache_pool.h"
#include "estimator/serve/engine_texts.h"
#include "estimator/serve/vllm_memory.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;
constexpr double kUtilization = 0.92;  // CacheConfig.gpu_memory_utilization
// Steps under way at a time (async scheduling): VllmConfig.max_concurrent_batches.
constexpr std::int64_t kBatchesInFlight = 2;

struct Defaults {
  std::int64_t batched_tokens, sequences;
};
// EngineArgs.get_batch_defaults() of the server: by the memory that CUDA shows, and A100s and GB10s are like smaller
// ones.
Defaults defaults_of(const Gpu& gpu) {
  const std::int64_t bytes = usable_bytes(gpu);
  if (bytes >= 160 * kGib) return {16384, 1024};
  const bool gb10 = gpu.capability_major == 12 && gpu.capability_minor == 1;
  if (bytes >= 70 * kGib && !gb10 && gpu.name.find("a100") == std::string::npos) return {8192, 1024};
  return {2048, 256};
}

VllmSizes sizes_of(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings, std::int64_t length) {
  const Defaults usual = defaults_of(gpu);
  VllmSizes sizes{.ranks = settings.tensor_ranks,
                  .positions = std::max(model.positions, length),
                  .length = length,
                  .weights = settings.weights,
                  .eager = settings.eager,
                  .compiled_before = settings.compiled_before,
                  .adapters = settings.adapters,
                  .adapter_rank = settings.adapter_rank};
  sizes.sequences = settings.sequences.value_or(usual.sequences);
  sizes.batched_tokens =
      settings.batched_tokens.value_or(std::min(usual.batched_tokens, checked_mul(sizes.sequences, length)));
  if (!settings.sequences) sizes.sequences = std::min(sizes.sequences, sizes.batched_tokens);
  return sizes;
}

// _estimate_max_model_len_from_groups(): the longest sequence whose blocks are there.
std::int64_t longest(const CachePool& pool, std::int64_t blocks, std::int64_t in_flight, std::int64_t most) {
  std::int64_t low = 0, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (pool.blocks_of(middle, in_flight) <= blocks)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::string no_room_text(const EngineStart& start, std::int64_t needed, std::int64_t available, std::int64_t longest) {
  std::string text = "To serve at least one request with the model's max seq len (" +
                     std::to_string(start.limits.length) + "), (" + gib(needed) +
                     " GiB KV cache is needed, which is larger than the available KV cache memory (" + gib(available) +
                     " GiB). ";
  if (longest > 0)
    text += "Based on the available memory, the estimated maximum model length is " + std::to_string(longest) + ". ";
  return text +
         "Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
         "decreasing `max_model_len` when initializing the engine.";
}

std::vector<MemoryPart> parts_of(const EngineStart& start, const ServedModel& model, const ServeSettings& settings) {
  std::vector<MemoryPart> out = {{"weights", start.weights_bytes,
                                  format_count(model.parameters()) + " parameters" +
                                      (settings.tensor_ranks > 1 ? " in all" : "") + ", rotary tables"}};
  if (start.consumed_bytes == 0) return out;  // it did not come so far
  out.push_back({"states", start.consumed_bytes - start.weights_bytes,
                 "of " + format_count(start.limits.sequences) + " sequences, workspaces, rounding"});
  out.push_back({"profile run", start.profile_bytes,
                 format_count(start.limits.batched_tokens) + " tokens; it peaks as " + start.profile_peak});
  out.push_back(
      {"CUDA graphs", start.graphs_bytes, settings.eager ? "none (--enforce-eager)" : "the engine's estimate"});
  return out;
}

}  // namespace

EngineStart start_vllm(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  EngineStart start;
  start.engine = "vLLM 0.33.0";
  refuse_ranks(model, settings.tensor_ranks);
  const std::int64_t length =
      served_length(model, settings,
                    "vLLM refuses it: \"User-specified max_model_len (" + std::to_string(settings.length) +
                        ") is greater than the derived max_model_len\"");
  const VllmSizes sizes = sizes_of(model, gpu, settings, length);
  const VllmMemory memory = vllm_memory(model, gpu, sizes);
  const CachePool pool = cache_pool(model, settings.fp8_cache ? 1 : 2, settings.tensor_ranks);
  const std::int64_t in_flight = checked_mul(kBatchesInFlight, sizes.batched_tokens);
  start.limits = {.block_tokens = pool.block_tokens,
                  .sequences = sizes.sequences,
                  .batched_tokens = sizes.batched_tokens,
                  .length = length};
  start.utilization = settings.utilization.value_or(kUtilization);
  start.gpu_bytes = start.shared_bytes = usable_bytes(gpu);
  start.shared_note = settings.tensor_ranks > 1 ? "on each GPU" : "";
  start.requested_bytes =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(start.gpu_bytes) * start.utilization));
  start.weights_bytes = memory.weights;
  start.consumed_bytes = memory.consumed;
  start.profile_bytes = memory.profile;
  start.profile_peak = memory.profile_peak;
  start.graphs_bytes = vllm_graphs_bytes(model, gpu, sizes);
  start.block_bytes = pool.block_bytes;
  start.parts = parts_of(start, model, settings);
  const std::int64_t free = start.gpu_bytes - gpu.context_bytes.value_or(kAssumedContextBytes);
  if (gpu.capability_major >= 10)
    start.warnings.push_back("no start of vLLM was recorded on " + gpu.architecture +
                             ": the workspaces of its attention kernels are not in these figures");
  if (sizes.batched_tokens < sizes.sequences) {  // SchedulerConfig.verify_max_model_len()
    start.error = "max_num_batched_tokens (" + std::to_string(sizes.batched_tokens) +
                  ") must be greater than or equal to max_num_seqs (" + std::to_string(sizes.sequences) + ").";
    return start;
  }
  if (free < start.requested_bytes) {
    char share[32];
    std::snprintf(share, sizeof share, "%g", start.utilization);
    start.error = "Free memory on device cuda:0 (" + gib(free) + "/" + gib(start.gpu_bytes) +
                  " GiB) on startup is less than desired GPU memory utilization (" + share + ", " +
                  gib(start.requested_bytes) +
                  " GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.";
    return start;
  }
  if (!memory.failed.empty()) {
    start.error = "torch.OutOfMemoryError: CUDA out of memory, as " + memory.failed +
                  (memory.weights > start.gpu_bytes ? ", which take " + gib(memory.weights) + " GiB" : "");
    return start;
  }
  start.cache_bytes = start.requested_bytes - start.consumed_bytes - start.profile_bytes - start.graphs_bytes;
  const std::int64_t usable = start.cache_bytes - pool.block_bytes;  // less the block that stands for none
  if (usable <= 0) {
    start.error =
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
        "the engine (this flag also controls CPU memory reservation on the CPU backend, despite its name).";
    return start;
  }
  const std::int64_t needed = pool.blocks_of(length, in_flight);
  if (checked_mul(needed, pool.block_bytes) > usable) {
    start.error = no_room_text(start, needed * pool.block_bytes, usable,
                               longest(pool, usable / pool.block_bytes, in_flight, length));
    return start;
  }
  start.starts = true;
  start.blocks = start.cache_bytes / pool.block_bytes;
  start.sequences_at_length = static_cast<double>(start.blocks) / static_cast<double>(needed);
  start.limits.cache_tokens = static_cast<std::int64_t>(start.sequences_at_length * static_cast<double>(length));
  return start;
}

}  // namespace gpuplan
