// nn.MultiheadAttention of one tensor with itself, as its forward runs it: with a gradient or under autocast the
// functional form, else its fast path (torch/nn/modules/activation.py, torch/nn/functional.py,
// aten/src/ATen/native/transformers/cuda/attention.cu).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct MultiheadAttention {
  TensorId in_weight = kNone;   // [3 E, E]
  TensorId in_bias = kNone;     // [3 E] or kNone
  TensorId out_weight = kNone;  // [E, E]
  TensorId out_bias = kNone;    // [E] or kNone
  std::int64_t heads = 1;
  double dropout = 0;
  bool batch_first = false;
  bool need_weights = true;  // also averages the weights of all heads, in the way that has them
};

/// Creates the parameters in_proj_weight, in_proj_bias, out_proj.weight and out_proj.bias of size `embed`.
MultiheadAttention multihead_attention_weights(LayerBuilder& b, std::int64_t embed, bool bias);

/// x [N, T, E], or [T, N, E] without batch_first. What the caller's frame holds of it is the caller's to say.
TensorId multihead_attention(LayerBuilder& b, TensorId x, const MultiheadAttention& mha);

}  // namespace gpuplan::aten
