// Attention as Hugging Face's eager_attention_forward computes it (transformers/models/*/modeling_*.py): one operation
// after the other, each product, mask and softmax a tensor of its own.
#pragma once

#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// What happens to the scores between the two products.
enum class EagerSoftmax : std::uint8_t {
  plain,  // softmax in the scores' type (BERT)
  value,  // then cast to the values' type (GPT-2)
  fp32    // computed in fp32, then cast to the queries' type (ViT, Llama)
};

/// Who computes it. Before transformers 5 encoders had attention classes of their own, which
/// from_pretrained(attn_implementation="eager") chooses.
enum class EagerClass : std::uint8_t {
  interface,  // eager_attention_forward
  bert,       // BertSelfAttention: names the scores until it returns
  distilbert  // MultiHeadSelfAttention: divides the queries and fills the scores, with a mask of numbers [batch, S]
};

struct EagerAttention {
  TensorId query = kNone, key = kNone, value = kNone;  // [batch, heads, length, size], of as many heads each
  TensorId mask = kNone;                               // additive, broadcast to [batch, heads, L, S]
  double dropout = 0;                                  // in training
  EagerSoftmax softmax = EagerSoftmax::plain;
  double softcap = 0;  // the scores become softcap * tanh(scores / softcap), of Gemma 2; 0: not
  EagerClass computed_by = EagerClass::interface;
};

struct EagerResult {
  TensorId output = kNone, weights = kNone;  // [batch, L, heads, size], contiguous; [batch, heads, L, S]
  std::vector<TensorId> named;               // local variables of the module's forward besides
};

/// GPT-2 before transformers 5 divides and masks by tensors of one number.
EagerResult eager_attention(LayerBuilder& b, const EagerAttention& arguments);

}  // namespace gpuplan::aten
