#include "estimator/serve/vllm_weights.h"

#include "estimator/base/integers.h"
#include "estimator/serve/vllm_forward.h"

namespace gpuplan {
namespace {

// RotaryEmbeddingBase._compute_cos_sin_cache(): angles, cosines and sines in fp32, both together, and these cast.
void make_rotary_table(EngineMemory& memory, std::int64_t positions, std::int64_t elements) {
  const std::int64_t half = checked_mul(positions, elements / 2 * 4);
  const BlockId angles = memory.take(half), cosines = memory.take(half), sines = memory.take(half);
  const BlockId both = memory.take(checked_mul(2, half));
  for (const BlockId block : {angles, cosines, sines}) memory.drop(block);
  memory.take(positions * elements * kServedElement);
  memory.drop(both);
}

// Routers and the projections to a latent are whole on every rank (ReplicatedLinear); a head of keys and values is,
// where there are more ranks than such heads (QKVParallelLinear).
struct RankMatrix {
  ServedMatrix matrix;
  std::int64_t ranks;
};
RankMatrix of_one_rank(const ServedAttention& a, ServedMatrix m, std::int64_t hidden, std::int64_t ranks) {
  if (m.role == MatrixRole::router) return {m, 1};
  if (m.role == MatrixRole::attention_input && a.latent > 0) return {m, m.in == hidden ? 1 : ranks};
  if (m.role == MatrixRole::attention_input && m.parts == 3 && ranks > a.kv_heads) {
    m.out = checked_mul(a.heads / ranks, a.key_size) + a.key_size + a.value_size;
    return {m, 1};
  }
  return {m, ranks};
}

}  // namespace

// In the order of their constructors: each layer's, then the embeddings' (make_layers comes last in LlamaModel, but the
// sizes are what counts).
void load_weights(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t table = vocabulary_of_rank(model, sizes.ranks) * model.hidden * kServedElement;
  memory.take(table);
  if (model.learned_positions > 0) memory.take(model.learned_positions * model.hidden * kServedElement);
  for (const ServedLayer& layer : model.layers) {
    for (const ServedMatrix& m : layer.matrices) {
      const RankMatrix of_rank = of_one_rank(layer.attention, m, model.hidden, sizes.ranks);
      for (const std::int64_t bytes : stored_parts(of_rank.matrix, sizes.weights, of_rank.ranks)) memory.take(bytes);
      if (&layer == &model.layers.front() && m.role == MatrixRole::attention_output)
        for (const std::int64_t elements : model.rotary_tables) make_rotary_table(memory, sizes.positions, elements);
    }
    if (layer.vectors > 0) memory.take(layer.vectors * kServedElement);
    for (int scale = 0; scale < 4; ++scale) memory.take(4);  // of queries, keys, values and scores: Attention
  }
  if (model.vectors > 0) memory.take(model.vectors * kServedElement);
  if (!model.tied) memory.take(table);
}

// vllm/lora/layers: for every product that was merged an A of its own, for every one of them a B, of as many adapters
// as are loaded at a time; the embedding and the head have both, too.
void load_adapters(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes) {
  const std::int64_t each = sizes.adapters * sizes.adapter_rank * kServedElement;
  if (each == 0) return;
  for (const ServedLayer& layer : model.layers)
    for (const ServedMatrix& m : layer.matrices) {
      if (m.expert || m.role == MatrixRole::router) continue;
      for (std::int64_t part = 0; part < m.parts; ++part) memory.take(each * m.in);
      for (std::int64_t part = 0; part < m.parts; ++part) memory.take(each * rank_share(m.out, sizes.ranks) / m.parts);
    }
  for (int place = 0; place < 2; ++place) {
    memory.take(each * model.vocabulary);
    memory.take(each * model.hidden);
  }
}

// What the sampler and the runner keep on the GPU for each of the sequences.
void keep_states(EngineMemory& memory, const ServedModel& model, const VllmSizes& sizes) {
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

std::int64_t vocabulary_of_rank(const ServedModel& model, std::int64_t ranks) {
  constexpr std::int64_t kPadding = 64;
  return rank_share(round_up(model.vocabulary, kPadding), ranks);
}

std::vector<std::int64_t> stored_parts(const ServedMatrix& matrix, WeightForm form, std::int64_t ranks) {
  constexpr std::int64_t kGroup = 128, kMicroscaled = 32;  // elements of a scale
  const std::int64_t elements = rank_share(checked_mul(checked_mul(matrix.in, matrix.out), matrix.copies), ranks);
  if (matrix.microscaled) return {elements / 2, elements / kMicroscaled};
  if (matrix.role == MatrixRole::router || form == WeightForm::plain) return {checked_mul(elements, kServedElement)};
  if (form == WeightForm::fp8) return {elements, 4};
  const std::int64_t scales = elements / kGroup;
  if (form == WeightForm::int4_awq) return {elements / 2, scales * kServedElement, scales / 2};
  return {elements / 2, scales * kServedElement};
}

}  // namespace gpuplan
