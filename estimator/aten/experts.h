// The gated MLPs of a mixture of experts as transformers runs them (integrations/moe.py, grouped_mm_experts_forward).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "estimator/base/integers.h"
#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// (up + 1) times gate times sigmoid(alpha gate), of numbers within the limit, gate and up by turns in one projection
/// (transformers/models/gpt_oss/modeling_gpt_oss.py, GptOssExperts): such experts have biases, and weights that lie
/// [in, out].
struct ClampedGate {
  double alpha = 0, limit = 0;
};

/// `masks`: the rows of experts that other ranks have (grouped_mm_experts_forward, _is_expert_parallel). Without
/// `clamped` the gate is silu(gate) times up.
struct ExpertSizes {
  std::int64_t tokens = 0, hidden = 0, inner = 0, experts = 0, top_k = 0;
  bool masks = false;
  std::optional<ClampedGate> clamped = std::nullopt;
  std::int64_t pairs() const { return checked_mul(tokens, top_k); }
};

struct ExpertWeights {
  TensorId gate_up = kNone, down = kNone;
  TensorId gate_up_bias = kNone, down_bias = kNone;  // where there are any
};

/// What the router says: [tokens, experts], [tokens, top_k], and which experts those are.
struct Routed {
  TensorId logits = kNone, weights = kNone, experts = kNone;
};

/// Those of a module of experts: gate_up_proj [E, 2 i, h] and down_proj [E, h, i]; with a clamped gate [E, h, 2 i] and
/// [E, i, h], with gate_up_proj_bias [E, 2 i] and down_proj_bias [E, h].
ExpertWeights expert_weights(LayerBuilder& b, const ExpertSizes& n);

/// x[index] along the first dimension. Saves the index; backward: index_put with accumulation into zeros.
TensorId rows_at(LayerBuilder& b, TensorId x, TensorId index);

/// x [tokens, hidden]: the chosen (token, expert) pairs are sorted by expert, their rows gathered, both projections of
/// all experts run as one grouped product each, and the weighted rows are put back in order and summed by token.
TensorId experts(LayerBuilder& b, TensorId x, const Routed& routed, const ExpertWeights& w, const ExpertSizes& n);

/// The same where RunConfig::expert_ranks have some of the experts each, a module of its own with weights for
/// `n.experts` / ranks (transformers/distributed/expert_parallel.py, AllToAllEP): each pair goes to the rank that has
/// its expert, which runs what it is sent as if each pair were a token of one expert; what comes back is weighted and
/// summed. Of ranks that share layers each does so with a part of the tokens. How many pairs it is sent is
/// RunConfig::expert_load's to say. `module`: its name within the layer, empty where it is the layer's own. Throws
/// Error, at the argument `num_experts`, for experts that the ranks do not divide.
TensorId experts_of_ranks(LayerBuilder& b, TensorId x, Routed routed, ExpertSizes n, std::string_view module);

}  // namespace gpuplan::aten
