#include "estimator/serve/vllm_memory.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/operators/scratch.h"
#include "estimator/serve/vllm_forward.h"
#include "estimator/serve/vllm_weights.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kSplit = std::int64_t{20} << 20;      // _scoped_allocator_max_split(20)
constexpr std::int64_t kTopKBuffer = std::int64_t{1} << 20;  // flashinfer.sampling, which keeps it

// Compiling: Inductor times the kernel that reads the embedding and norms it, on tensors of its own making.
void compile(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t rows = sizes.batched_tokens * model.hidden;
  const BlockId table = memory.take(vocabulary_of_rank(model, sizes.ranks) * model.hidden * kServedElement);
  const BlockId made = memory.take(rows * kServedElement), normed = memory.take(rows * kServedElement);
  if (sizes.weights == WeightForm::fp8) memory.use(rows);  // the kernel quantizes, too
  memory.drop(table);
  if (sizes.weights == WeightForm::fp8) {  // and so does that of the activation
    const ForwardWidths w = forward_widths(model, sizes.ranks);
    const BlockId wide = memory.take(sizes.batched_tokens * w.mlp_input * kServedElement);
    const BlockId inner = memory.take(sizes.batched_tokens * w.mlp_inner * kServedElement);
    memory.use(sizes.batched_tokens * w.mlp_inner);
    for (const BlockId block : {inner, wide}) memory.drop(block);
  }
  for (const BlockId block : {normed, made}) memory.drop(block);
}

// SharedResource of fused experts (modular_kernel.py, workspace.py): rows of all pairs of token and expert, two
// buffers of which the second holds both projections. Kept from then on.
std::int64_t expert_workspace(const ServedModel& model, const VllmSizes& sizes) {
  std::int64_t most = 0;
  for (const ServedLayer& layer : model.layers)
    for (const ServedMatrix& m : layer.matrices)
      if (m.expert && !m.microscaled && m.role == MatrixRole::mlp_input) {  // gpt-oss's kernels of Triton keep none
        const std::int64_t pairs = checked_mul(sizes.batched_tokens, m.used);
        const std::int64_t gate_up = rank_share(m.out, sizes.ranks);
        const std::int64_t row = checked_add(std::max(gate_up, m.in), std::max(gate_up / 2, m.in));
        most = std::max(most, checked_mul(checked_mul(pairs, row), kServedElement));
      }
  return most;
}

// The logits of as many sequences as the engine takes, in fp32, of which FlashInfer's kernels keep the most likely.
// Before Ampere vLLM has a kernel of its own: each multiprocessor has a row, in a buffer that stays.
void sample(EngineMemory& memory, const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  const std::int64_t n = std::min(sizes.sequences, sizes.batched_tokens);
  const BlockId hidden = memory.take(sizes.batched_tokens * model.hidden * kServedElement);
  const BlockId chosen = memory.take(n * model.hidden * kServedElement);
  const BlockId logits = memory.take(n * model.vocabulary * kServedElement);
  const BlockId numbers = memory.take(n * model.vocabulary * 4);
  if (gpu.capability_major >= 8) {
    memory.take(kTopKBuffer);
    const BlockId masked = memory.take(n * model.vocabulary * 4);
    memory.use(n * model.vocabulary * 4);
    memory.drop(masked);
  } else {
    memory.take(gpu.sm_count * model.vocabulary * 4);
    memory.use(gpu.sm_count * std::int64_t{8192} * 4);
  }
  for (const BlockId block : {numbers, logits, chosen, hidden}) memory.drop(block);
}

// MLACommonImpl: contexts are read in chunks of so many tokens, whose keys and values are made again from the latent
// vectors; the profile run makes the largest chunk (determine_chunked_prefill_workspace_size()).
std::int64_t chunk_bytes(const ServedModel& model, const VllmSizes& sizes) {
  constexpr std::int64_t kMost = 64 * 1024, kBlock = 64;
  const std::int64_t tokens = std::min(std::max(8 * sizes.length, 4 * sizes.sequences * kBlock), kMost);
  std::int64_t most = 0;
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    const std::int64_t plain = a.key_size - (a.latent - a.latent_value);
    if (a.latent > 0)
      most = std::max(most, checked_mul(tokens * kServedElement,
                                        checked_mul(rank_share(a.heads, sizes.ranks), plain + a.value_size)));
  }
  return most;
}

std::int64_t l2_cache_bytes(const Gpu& gpu) {
  if (gpu.l2_cache_bytes) return *gpu.l2_cache_bytes;
  const bool published = gpu.datasheet && gpu.datasheet->l2_mib;
  return published ? static_cast<std::int64_t>(*gpu.datasheet->l2_mib) * (std::int64_t{1} << 20) : 0;
}

}  // namespace

std::int64_t loaded_bytes(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  Gpu endless = gpu;
  endless.memory_bytes = 0;
  EngineMemory memory(endless, INT64_MAX);
  load_weights(memory, model, sizes);
  memory.allocator().empty_cache();
  return memory.allocator().reserved_bytes();
}

VllmMemory vllm_memory(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  VllmMemory out;
  EngineMemory memory(gpu, kSplit);
  CachingAllocator& allocator = memory.allocator();
  memory.take(cublas_workspace_bytes(gpu));  // the product before the first look at the memory
  memory.take(2);
  const std::int64_t before = allocator.reserved_bytes();
  load_weights(memory, model, sizes);
  if (memory.full()) out.failed = "the weights are loaded";
  load_adapters(memory, model, sizes);
  if (memory.full() && out.failed.empty()) out.failed = "adapters are loaded";
  out.weights = allocator.allocated_bytes() - cublas_workspace_bytes(gpu);
  keep_states(memory, model, sizes);
  if (memory.full()) {
    if (out.failed.empty()) out.failed = "the sampler's states of so many sequences are made";
    Gpu larger = gpu;
    larger.memory_bytes = 0;
    EngineMemory whole(larger, kSplit);
    load_weights(whole, model, sizes);
    out.weights = whole.allocator().allocated_bytes();
    return out;
  }
  allocator.empty_cache();
  allocator.reset_peaks();
  std::int64_t highest = 0;
  const auto phase = [&](const char* name) {
    if (allocator.peak_allocated_bytes() > highest) out.profile_peak = name;
    highest = std::max(highest, allocator.peak_allocated_bytes());
    if (memory.full() && out.failed.empty()) out.failed = name;
    allocator.reset_peaks();
  };
  if (!sizes.eager && !sizes.compiled_before) {
    compile(memory, model, sizes);
    phase("the model is compiled");
  }
  if (const std::int64_t bytes = expert_workspace(model, sizes); bytes > 0) memory.take(bytes);
  // A first start has timed its kernels as it compiled them; a later one times those of the last layer as they run.
  run_forward(memory, model, sizes.ranks, sizes.batched_tokens, sizes.compiled_before ? l2_cache_bytes(gpu) : 0,
              std::vector{chunk_bytes(model, sizes)});
  phase("the prompt runs");
  sample(memory, model, gpu, sizes);
  phase("tokens are sampled");
  allocator.empty_cache();
  out.consumed = allocator.reserved_bytes() - before;
  out.profile = highest - allocator.allocated_bytes();
  return out;
}

}  // namespace gpuplan
