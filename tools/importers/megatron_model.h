// The spec of a GPT of Megatron-core, as one rank of tensor parallelism has it.
#pragma once

#include <cstdint>
#include <string>

namespace gpuplan {

/// Sizes of all ranks, by the names of Megatron-LM's arguments. head: kv-channels; inner: ffn-hidden-size.
struct MegatronModel {
  std::int64_t layers = 0, hidden = 0, inner = 0, heads = 0, groups = 0, head = 0, tokens = 0, vocabulary = 0;
  std::int64_t ranks = 1;             // tensor-model-parallel-size, which divides heads, groups, inner and vocabulary
  double epsilon = 1e-5;              // norm-epsilon
  bool recomputes_attention = false;  // recompute-granularity: selective
  bool transformer_engine = false;    // transformer-impl
  bool sequence_parallel = false;     // of Transformer Engine's modules
  std::int64_t context = 1;           // context-parallel-size: ranks that have 1/context of the tokens each
};

/// A GPT with rotary positions, RMSNorm, SwiGLU, no biases, no dropout and a head of its own.
std::string megatron_spec(const MegatronModel& model);

}  // namespace gpuplan
