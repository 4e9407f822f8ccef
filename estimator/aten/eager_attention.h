// Attention as Hugging Face's eager_attention_forward computes it (transformers/models/*/modeling_*.py): one operation
// after the other, each product, mask and softmax a tensor of its own.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// What happens to the scores between the two products.
enum class EagerSoftmax : std::uint8_t {
  plain,  // softmax in the scores' type (BERT)
  value,  // then cast to the values' type (GPT-2)
  fp32    // computed in fp32, then cast to the queries' type (ViT, Llama)
};

struct EagerAttention {
  TensorId query = kNone, key = kNone, value = kNone;  // [batch, heads, length, size], of as many heads each
  TensorId mask = kNone;                               // additive, broadcast to [batch, heads, L, S]
  double dropout = 0;                                  // in training
  EagerSoftmax softmax = EagerSoftmax::plain;
  double softcap = 0;  // the scores become softcap * tanh(scores / softcap), of Gemma 2; 0: not
};

struct EagerResult {
  TensorId output = kNone, weights = kNone;  // [batch, L, heads, size], contiguous; [batch, heads, L, S]
};

/// GPT-2 before transformers 5 divides and masks by tensors of one number.
EagerResult eager_attention(LayerBuilder& b, const EagerAttention& arguments);

}  // namespace gpuplan::aten
