// What each stage of a GPT takes under Megatron-LM's tensor and pipeline parallelism, by the formulas of transformer.h.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/distributed/transformer.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct StageRow {
  std::int64_t parameters = 0;   // of one of its ranks
  std::int64_t state_bytes = 0;  // parameters, gradients and Adam's states
  std::int64_t in_flight = 0;    // micro-batches
  std::int64_t activation_bytes = 0;
  std::int64_t bytes() const { return state_bytes + activation_bytes; }
};

/// The model's variables layers, hidden, heads, seq and vocabulary, which is padded to a multiple of 128 * tensor as
/// Megatron-LM does. Throws Error, of kind usage, for a model that has others than a GPT's parameters.
Transformer transformer_of(const Model& model, std::int64_t parameters, const Strategy& strategy);

/// One row a stage, of batch / ranks / micro-batches samples at a time. States take 18 bytes a parameter: 2 of it, 4 of
/// its gradient in fp32, 12 of a master copy and two moments; the 12 are shared by the ranks with zero1 (Megatron-LM's
/// distributed optimizer). Throws Error, of kind usage, for numbers that do not divide, and strategies that Megatron-LM
/// does not have.
std::vector<StageRow> plan_stages(const Transformer& model, const Strategy& strategy, std::int64_t batch,
                                  std::int64_t micro_batches, RecomputeMode recompute);

}  // namespace gpuplan
