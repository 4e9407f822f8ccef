#include "estimator/serve/vllm_forward.h"

#include <algorithm>

namespace gpuplan {
namespace {

// All at a time.
void use_all(EngineMemory& memory, std::span<const std::int64_t> sizes) {
  std::vector<BlockId> blocks;
  for (const std::int64_t bytes : sizes) blocks.push_back(memory.take(bytes));
  for (const BlockId block : blocks) memory.drop(block);
}

// The queries once they are turned, and the result of attention. Inductor writes them where the norm's result and the
// projection's were, which nobody needs any more, if they are as large.
struct AttentionRows {
  BlockId turned, attended;
};
AttentionRows attention_rows(EngineMemory& memory, const ForwardWidths& w, std::int64_t tokens, BlockId normed,
                             BlockId projected) {
  if (w.queries == w.hidden) return {normed, projected};
  const BlockId turned = w.latent ? kNoBlock : memory.take(checked_mul(tokens * kServedElement, w.queries));
  memory.drop(normed);
  const BlockId attended = memory.take(checked_mul(tokens * kServedElement, w.queries));
  memory.drop(projected);
  return {turned, attended};
}

// A layer, from the result of attention to the next one's; `residual` and `attended` are held by the caller. `cold`:
// bytes that Inductor's benchmark writes to empty the cache of level 2, at the first call of the activation. `scratch`:
// what attention takes while it runs.
struct Between {
  BlockId residual, attended;
};
Between run_layer(EngineMemory& memory, const ForwardWidths& w, std::int64_t tokens, Between given, std::int64_t cold,
                  std::span<const std::int64_t> scratch) {
  const auto rows = [&](std::int64_t width) { return memory.take(checked_mul(tokens * kServedElement, width)); };
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
  const auto [turned, attended] = attention_rows(memory, w, tokens, next, projected);
  for (const BlockId block : {given.attended, given.residual}) memory.drop(block);
  use_all(memory, scratch);
  for (const BlockId block : {keys, heads, turned}) memory.drop(block);
  return {residual, attended};
}

}  // namespace

ForwardWidths forward_widths(const ServedModel& model, std::int64_t ranks) {
  ForwardWidths w{.hidden = model.hidden};
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    w.latent = w.latent || a.latent > 0;
    w.queries = std::max(w.queries, rank_share(checked_mul(a.heads, a.value_size), ranks));
    w.keys = std::max(w.keys, a.latent > 0 ? a.latent : rank_share(checked_mul(a.kv_heads, a.key_size), ranks));
    const ServedMatrix* const input = layer.find(MatrixRole::attention_input);
    if (input != nullptr)
      w.attention_input =
          std::max(w.attention_input, rank_share(a.latent > 0 ? checked_mul(a.heads, a.key_size) : input->out, ranks));
    for (const ServedMatrix& m : layer.matrices) {
      if (m.expert) continue;
      if (m.role == MatrixRole::mlp_input) w.mlp_input = std::max(w.mlp_input, rank_share(m.out, ranks));
      if (m.role == MatrixRole::mlp_output) w.mlp_inner = std::max(w.mlp_inner, rank_share(m.in, ranks));
    }
  }
  return w;
}

void run_forward(EngineMemory& memory, const ServedModel& model, std::int64_t ranks, std::int64_t tokens,
                 std::int64_t cold, std::span<const std::int64_t> scratch) {
  const ForwardWidths w = forward_widths(model, ranks);
  const auto rows = [&](std::int64_t width) { return memory.take(checked_mul(tokens * kServedElement, width)); };
  Between at{rows(w.hidden), kNoBlock};
  const BlockId normed = rows(w.hidden), heads = rows(w.attention_input), keys = rows(w.keys);
  if (w.latent) memory.drop(normed);
  at.attended = rows(w.queries);
  use_all(memory, scratch);
  for (const BlockId block : {keys, heads, w.latent ? kNoBlock : normed}) memory.drop(block);
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    at = run_layer(memory, w, tokens, at, i == 0 || i + 1 == model.layers.size() ? cold : 0, scratch);
  memory.drop(at.attended);
  memory.drop(at.residual);
}

}  // namespace gpuplan
