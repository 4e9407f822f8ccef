// torch.nn.functional.scaled_dot_product_attention: the backend that PyTorch chooses (estimator/operators/attention.h),
// its operators and their autograd nodes.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct AttentionArguments {
  TensorId query = kNone, key = kNone, value = kNone;  // [batch, heads, length, size]
  TensorId mask = kNone;                               // boolean or additive, broadcast to [batch, heads, L, S]
  double dropout = 0;                                  // of the call: 0 in evaluation
  bool causal = false;
  bool grouped = true;  // fewer key heads than query heads are repeated; else a single one is broadcast
};

/// [batch, heads, L, value size]; fewer key heads than query heads mean enable_gqa=True, or a single one. Under
/// autocast its operands are cast. Throws Error where a backend that was asked for cannot run the call.
TensorId scaled_dot_product_attention(LayerBuilder& b, AttentionArguments arguments);

/// Whether no fused kernel takes x [batch, tokens, features], divided into heads, as its own queries, keys and values.
bool takes_no_fused_kernel(const LayerBuilder& b, TensorId x, std::int64_t heads);

/// A boolean mask as 0 and -inf of `dtype` (aten/src/ATen/native/transformers/attention.cpp,
/// convert_boolean_attn_mask).
TensorId additive_mask(LayerBuilder& b, TensorId mask, DType dtype);

}  // namespace gpuplan::aten
