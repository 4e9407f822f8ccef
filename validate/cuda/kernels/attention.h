// Scaled dot-product attention, softmax(scale q k^T + mask) v, by tiles: the scores are never in memory.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

constexpr int kMostHeadSize = 256, kMostHeadSizeInDouble = 128;

/// query [batch, heads, queries, size], key and value [batch, heads / group, keys, size], of any strides whose last is
/// 1; out and the gradients as their tensors. logsumexp has a value for each query and head.
struct AttentionTensors {
  KernelTensor query, key, value, mask, out, logsumexp;
  KernelTensor grad, grad_query, grad_key, grad_value;  // backward
  KernelTensor grad_mask;                               // of every score
};

struct AttentionArguments {
  double scale = 1, dropout = 0;
  bool causal = false;  // query i attends to keys 0 .. i
  std::uint64_t seed = 0;
};

/// "" or why these tensors are not attended.
const char* attention_refusal(const AttentionTensors& t);

void attention(const LaunchContext& context, const AttentionTensors& t, const AttentionArguments& arguments);
/// `row_sums`: room for batch * heads * queries sums, of the type that sums are kept in.
void attention_backward(const LaunchContext& context, const AttentionTensors& t, const AttentionArguments& arguments,
                        void* row_sums);

}  // namespace gpuplan::cuda
