// The gated MLPs of a mixture of experts as transformers runs them (integrations/moe.py, grouped_mm_experts_forward).
#pragma once

#include <cstdint>

#include "estimator/base/integers.h"
#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// `masks`: the rows of experts that other ranks have (grouped_mm_experts_forward, _is_expert_parallel).
struct ExpertSizes {
  std::int64_t tokens = 0, hidden = 0, inner = 0, experts = 0, top_k = 0;
  bool masks = false;
  std::int64_t pairs() const { return checked_mul(tokens, top_k); }
};

struct ExpertWeights {
  TensorId gate_up = kNone, down = kNone;
};

/// What the router says: [tokens, experts], [tokens, top_k], and which experts those are.
struct Routed {
  TensorId logits = kNone, weights = kNone, experts = kNone;
};

/// x[index] along the first dimension. Saves the index; backward: index_put with accumulation into zeros.
TensorId rows_at(LayerBuilder& b, TensorId x, TensorId index);

/// x [tokens, hidden]: the chosen (token, expert) pairs are sorted by expert, their rows gathered, both projections of
/// all experts run as one grouped product each, and the weighted rows are put back in order and summed by token.
TensorId experts(LayerBuilder& b, TensorId x, const Routed& routed, const ExpertWeights& w, const ExpertSizes& n);

/// The same where RunConfig::expert_ranks have some of the experts each, a module of its own with weights for
/// `n.experts` / ranks (transformers/distributed/expert_parallel.py, AllToAllEP): each pair goes to the rank that has
/// its expert, which runs what it is sent as if each pair were a token of one expert; what comes back is weighted and
/// summed. How many pairs it is sent is RunConfig::expert_load's to say.
TensorId experts_of_ranks(LayerBuilder& b, TensorId x, Routed routed, const ExpertSizes& n);

}  // namespace gpuplan::aten
