#include "estimator/serve/vllm_memory.h"

#include <algorithm>

#include "estimator/allocator/allocator.h"
#include "estimator/base/integers.h"
#include "estimator/operators/scratch.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kElement = 2;                     // bytes of bf16 and fp16
constexpr std::int64_t kSplit = std::int64_t{20} << 20;  // _scoped_allocator_max_split(20)
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
// Statistics of attention's rows, which take a segment of small blocks in each of three places.
constexpr std::int64_t kAttentionScratch = 6 * kMebibyte;
constexpr std::int64_t kTopKBuffer = kMebibyte;  // flashinfer.sampling, which keeps it

std::int64_t share(std::int64_t whole, std::int64_t ranks) { return ceil_div(whole, ranks); }

// Elements of one token in the layer that is widest, of one rank.
struct Widths {
  std::int64_t hidden = 0;
  std::int64_t queries = 0, keys = 0;  // of attention's result, and of the keys that rotary embedding copies
  std::int64_t attention_input = 0;    // queries, keys and values
  std::int64_t mlp_input = 0, mlp_inner = 0;
};

Widths widths_of(const ServedModel& model, std::int64_t ranks) {
  Widths w{.hidden = model.hidden};
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    w.queries = std::max(w.queries, share(a.heads * a.value_size, ranks));
    w.keys = std::max(w.keys, share(a.kv_heads * a.key_size, ranks));
    if (const ServedMatrix* m = layer.find(MatrixRole::attention_input))
      w.attention_input = std::max(w.attention_input, share(m->out, ranks));
    for (const ServedMatrix& m : layer.matrices) {
      if (m.expert) continue;
      if (m.role == MatrixRole::mlp_input) w.mlp_input = std::max(w.mlp_input, share(m.out, ranks));
      if (m.role == MatrixRole::mlp_output) w.mlp_inner = std::max(w.mlp_inner, share(m.in, ranks));
    }
  }
  return w;
}

// What the engine runs on: PyTorch's allocator, with the largest block that is split.
class Memory {
 public:
  explicit Memory(const Gpu& gpu, std::int64_t max_split = kSplit)
      : segments_(gpu.memory_bytes > 0 ? usable_bytes(gpu) : INT64_MAX), allocator_(segments_, settings(max_split)) {}

  BlockId take(std::int64_t bytes) {
    const BlockId block = allocator_.allocate(bytes);
    full_ = full_ || block == kOutOfMemory;
    return block == kOutOfMemory ? kNoBlock : block;
  }
  void drop(BlockId block) { allocator_.release(block); }
  void use(std::int64_t bytes) { drop(take(bytes)); }
  CachingAllocator& allocator() { return allocator_; }
  bool full() const { return full_; }

 private:
  static AllocatorSettings settings(std::int64_t max_split) {
    AllocatorSettings s;
    s.max_split_bytes = max_split;
    return s;
  }
  ArithmeticSegments segments_;
  CachingAllocator allocator_;
  bool full_ = false;
};

// RotaryEmbeddingBase._compute_cos_sin_cache(): angles, cosines and sines in fp32, both together, and these cast.
void make_rotary_table(Memory& memory, std::int64_t positions, std::int64_t elements) {
  const std::int64_t half = positions * (elements / 2) * 4;
  const BlockId angles = memory.take(half), cosines = memory.take(half), sines = memory.take(half);
  const BlockId both = memory.take(2 * half);
  for (const BlockId block : {angles, cosines, sines}) memory.drop(block);
  memory.take(positions * elements * kElement);
  memory.drop(both);
}

// In the order of their constructors: each layer's, then the embeddings' (make_layers comes last in LlamaModel, but the
// sizes are what counts).
void load(Memory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t table = vocabulary_of_rank(model, sizes.ranks) * model.hidden * kElement;
  memory.take(table);
  if (model.learned_positions > 0) memory.take(model.learned_positions * model.hidden * kElement);
  for (const ServedLayer& layer : model.layers) {
    for (const ServedMatrix& m : layer.matrices) {
      for (const std::int64_t bytes : stored_parts(m, sizes.weights, sizes.ranks)) memory.take(bytes);
      if (&layer == &model.layers.front() && m.role == MatrixRole::attention_output)
        for (const std::int64_t elements : model.rotary_tables) make_rotary_table(memory, sizes.positions, elements);
    }
    if (layer.vectors > 0) memory.take(layer.vectors * kElement);
    for (int scale = 0; scale < 4; ++scale) memory.take(4);  // of queries, keys, values and scores: Attention
  }
  if (model.vectors > 0) memory.take(model.vectors * kElement);
  if (!model.tied) memory.take(table);
}

// vllm/lora/layers: for every product that was merged an A of its own, for every one of them a B, of as many adapters
// as are loaded at a time; the embedding and the head have both, too.
void load_adapters(Memory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t each = sizes.adapters * sizes.adapter_rank * kElement;
  if (each == 0) return;
  for (const ServedLayer& layer : model.layers)
    for (const ServedMatrix& m : layer.matrices) {
      if (m.expert || m.role == MatrixRole::router) continue;
      for (std::int64_t part = 0; part < m.parts; ++part) memory.take(each * m.in);
      for (std::int64_t part = 0; part < m.parts; ++part) memory.take(each * share(m.out, sizes.ranks) / m.parts);
    }
  for (int place = 0; place < 2; ++place) {
    memory.take(each * model.vocabulary);
    memory.take(each * model.hidden);
  }
}

// What the sampler and the runner keep on the GPU for each of the sequences.
void keep_states(Memory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t n = sizes.sequences, words = ceil_div(model.vocabulary, 32) * 4;
  memory.take(sizes.batched_tokens * 4);  // InputBuffers: tokens, positions
  memory.take(sizes.batched_tokens * 8);
  memory.take(n * words);                                 // PenaltiesState: which tokens the prompt has
  memory.take(n * model.vocabulary * 4);                  // and how often the answer has each
  for (int i = 0; i < 4; ++i) memory.take(n * 1024 * 4);  // LogitBiasState's three, BadWordsState
  memory.take(n * 129 * 4);                               // BadWordsState's offsets
  memory.take(n * 128 * 4);                               // LogitBiasState's stop tokens
  memory.take(n * 128 * 4);                               // LogprobTokenIdsState
  memory.take(n * words);                                 // StructuredOutputsWorker: the grammar's mask
}

// Compiling: Inductor times the kernel that reads the embedding and norms it, on tensors of its own making.
void compile(Memory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t rows = sizes.batched_tokens * model.hidden;
  const BlockId table = memory.take(vocabulary_of_rank(model, sizes.ranks) * model.hidden * kElement);
  const BlockId made = memory.take(rows * kElement), normed = memory.take(rows * kElement);
  if (sizes.weights == WeightForm::fp8) memory.use(rows);  // the kernel quantizes, too
  for (const BlockId block : {normed, made, table}) memory.drop(block);
}

// A layer, from the result of attention to the next one's; `residual` and `attended` are held by the caller. `cold`:
// bytes that Inductor's benchmark writes to empty the cache of level 2, at the first call of the activation. `split`:
// what attention takes while it runs.
struct Between {
  BlockId residual, attended;
};
Between run_layer(Memory& memory, const Widths& w, std::int64_t tokens, Between given, std::int64_t cold,
                  std::int64_t split) {
  const auto rows = [&](std::int64_t width) { return memory.take(tokens * width * kElement); };
  const BlockId projected = rows(w.hidden);
  BlockId normed = rows(w.hidden);
  if (w.mlp_input > 0) {
    const BlockId wide = rows(w.mlp_input);
    memory.drop(normed);
    const BlockId inner = rows(w.mlp_inner);
    if (cold > 0) memory.use(cold);
    memory.drop(wide);
    normed = rows(w.hidden);
    memory.drop(inner);
  }
  const BlockId next = rows(w.hidden), residual = rows(w.hidden);
  memory.drop(normed);
  const BlockId heads = rows(w.attention_input), keys = rows(w.keys);
  memory.drop(next);
  const BlockId attended = rows(w.queries);
  if (split > 0) memory.use(split);
  for (const BlockId block : {given.attended, given.residual, keys, heads, projected}) memory.drop(block);
  return {residual, attended};
}

// SharedResource of fused experts (modular_kernel.py, workspace.py): rows of all pairs of token and expert, two
// buffers of which the second holds both projections. Kept from then on.
std::int64_t expert_workspace(const ServedModel& model, const VllmSizes& sizes) {
  std::int64_t most = 0;
  for (const ServedLayer& layer : model.layers)
    for (const ServedMatrix& m : layer.matrices)
      if (m.expert && !m.microscaled && m.role == MatrixRole::mlp_input) {  // gpt-oss's kernels of Triton keep none
        const std::int64_t pairs = sizes.batched_tokens * m.used;
        const std::int64_t gate_up = share(m.out, sizes.ranks);
        most = std::max(most, pairs * (std::max(gate_up, m.in) + std::max(gate_up / 2, m.in)) * kElement);
      }
  return most;
}

// `tokens` through all layers; `cold` and `split` as in run_layer().
void forward(Memory& memory, const ServedModel& model, const VllmSizes& sizes, std::int64_t tokens, std::int64_t cold,
             std::int64_t split = 0) {
  const Widths w = widths_of(model, sizes.ranks);
  const auto rows = [&](std::int64_t width) { return memory.take(tokens * width * kElement); };
  Between at{rows(w.hidden), kNoBlock};
  const BlockId normed = rows(w.hidden), heads = rows(w.attention_input), keys = rows(w.keys);
  at.attended = rows(w.queries);
  if (split > 0) memory.use(split);
  for (const BlockId block : {keys, heads, normed}) memory.drop(block);
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    at = run_layer(memory, w, tokens, at, i == 0 || i + 1 == model.layers.size() ? cold : 0, split);
  memory.drop(at.attended);
  memory.drop(at.residual);
}

// The logits of as many sequences as the engine takes, in fp32, of which FlashInfer's kernels keep the most likely.
// Before Ampere vLLM has a kernel of its own: each multiprocessor has a row, in a buffer that stays.
void sample(Memory& memory, const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  const std::int64_t n = std::min(sizes.sequences, sizes.batched_tokens);
  const BlockId hidden = memory.take(sizes.batched_tokens * model.hidden * kElement);
  const BlockId chosen = memory.take(n * model.hidden * kElement);
  const BlockId logits = memory.take(n * model.vocabulary * kElement);
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

// FlashAttention 3, which Hopper runs, splits the contexts of a captured decode into so many parts at most, and has
// each one's result in fp32 (AttentionConfig.flash_attn_max_num_splits_for_cuda_graph).
std::int64_t split_attention_bytes(const ServedModel& model, const VllmSizes& sizes, std::int64_t tokens) {
  constexpr std::int64_t kSplits = 32;
  std::int64_t heads = 0;
  for (const ServedLayer& layer : model.layers)
    heads = std::max(heads, share(layer.attention.heads * layer.attention.value_size, sizes.ranks));
  return kSplits * tokens * heads * 4;
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

std::int64_t l2_cache_bytes(const Gpu& gpu) {
  if (gpu.l2_cache_bytes) return *gpu.l2_cache_bytes;
  const bool published = gpu.datasheet && gpu.datasheet->l2_mib;
  return published ? static_cast<std::int64_t>(*gpu.datasheet->l2_mib) * kMebibyte : 0;
}

}  // namespace

std::int64_t vocabulary_of_rank(const ServedModel& model, std::int64_t ranks) {
  constexpr std::int64_t kPadding = 64;
  return share(round_up(model.vocabulary, kPadding), ranks);
}

std::vector<std::int64_t> stored_parts(const ServedMatrix& matrix, WeightForm form, std::int64_t ranks) {
  constexpr std::int64_t kGroup = 128, kMicroscaled = 32;  // elements of a scale
  const std::int64_t elements = share(checked_mul(checked_mul(matrix.in, matrix.out), matrix.copies), ranks);
  if (matrix.microscaled) return {elements / 2, elements / kMicroscaled};
  if (matrix.role == MatrixRole::router || form == WeightForm::plain) return {checked_mul(elements, kElement)};
  if (form == WeightForm::fp8) return {elements, 4};
  const std::int64_t scales = elements / kGroup;
  if (form == WeightForm::int4_awq) return {elements / 2, scales * kElement, scales / 2};
  return {elements / 2, scales * kElement};
}

VllmMemory vllm_memory(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  VllmMemory out;
  Memory memory(gpu);
  CachingAllocator& allocator = memory.allocator();
  memory.take(cublas_workspace_bytes(gpu));  // the product before the first look at the memory
  memory.take(2);
  const std::int64_t before = allocator.reserved_bytes();
  load(memory, model, sizes);
  load_adapters(memory, model, sizes);
  out.weights = allocator.allocated_bytes() - cublas_workspace_bytes(gpu);
  keep_states(memory, model, sizes);
  if (memory.full()) {
    out.failed = "the weights are loaded";
    Gpu larger = gpu;
    larger.memory_bytes = 0;
    Memory whole(larger);
    load(whole, model, sizes);
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
  forward(memory, model, sizes, sizes.batched_tokens, sizes.compiled_before ? l2_cache_bytes(gpu) : 0);
  phase("the prompt runs");
  sample(memory, model, gpu, sizes);
  phase("tokens are sampled");
  allocator.empty_cache();
  out.consumed = allocator.reserved_bytes() - before;
  out.profile = highest - allocator.allocated_bytes();
  return out;
}

std::int64_t vllm_graphs_bytes(const ServedModel& model, const Gpu& gpu, const VllmSizes& sizes) {
  const std::vector<std::int64_t> captured = captured_sizes(gpu, sizes);
  if (captured.empty()) return 0;
  const auto whole = std::ranges::upper_bound(captured, sizes.sequences) - captured.begin();
  const auto split = [&](std::int64_t tokens) {
    return gpu.capability_major == 9 ? split_attention_bytes(model, sizes, tokens) : 0;
  };
  Memory pool(gpu, INT64_MAX), kept(gpu, INT64_MAX), warm(gpu, INT64_MAX);
  forward(pool, model, sizes, captured.back(), 0);
  kept.take(captured.back() * model.hidden * kElement);
  if (whole > 0) {
    const std::int64_t largest = captured[static_cast<std::size_t>(whole) - 1];
    const std::int64_t next = captured[static_cast<std::size_t>(std::max<std::ptrdiff_t>(whole - 2, 0))];
    forward(pool, model, sizes, largest, 0, split(largest));
    forward(warm, model, sizes, next, 0, split(next));
  }
  std::int64_t sum = kAttentionScratch + std::max<std::int64_t>(whole - 1, 0) * kMebibyte;
  for (Memory* memory : {&pool, &kept, &warm}) sum += memory->allocator().reserved_bytes();
  return sum;
}

}  // namespace gpuplan
