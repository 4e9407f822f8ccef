// What a call of scaled_dot_product_attention and the calls of a ring are made of (attention.cpp, ring_attention.cpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/aten/attention.h"
#include "estimator/operators/attention.h"

namespace gpuplan::aten {

/// With leading dimensions of 1 where it has less than four.
StridedTensor strided(const LayerBuilder& b, TensorId t);
AttentionCall attention_call(const LayerBuilder& b, const AttentionArguments& arguments);
/// As --attention asks for it, or PyTorch's choice.
AttentionBackend chosen_backend(const LayerBuilder& b, const AttentionCall& call);
std::string_view node_name(AttentionBackend backend);

/// Multiply-adds of one pass over the scores: q k^T and p v.
struct Products {
  std::int64_t scores = 0, values = 0;
};
Products products(const AttentionCall& call);

std::vector<OutputSpec> outputs_of(const AttentionStep& step);
/// As generated code unpacks what a kernel's node saved (AttentionStep::saved): inputs by name (attn_bias, key, query,
/// value), then outputs (logsumexp, output, ...).
std::vector<AttentionValue> saved_in_order(const std::vector<AttentionValue>& saved, bool mask);
/// The gradient as a backward kernel reads it: but for cuDNN's [batch, length, heads, size] in memory.
Operand gradient_as_read(NodeBuilder& node, Operand gradient, AttentionBackend backend);

}  // namespace gpuplan::aten
