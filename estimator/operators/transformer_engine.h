// What Transformer Engine 2.20's kernels take beside their results, in bytes, unrounded. Sources: transformer_engine/
// pytorch/cpp_extensions/gemm.py, common/normalization/ and common/fused_attn/ (cuDNN's frontend); checked against its
// own library, which `gpuplan shadow` ran for each size below.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"

namespace gpuplan::transformer_engine {

/// get_cublas_workspace(): one for all products, made with the first module.
std::int64_t product_workspace(const Gpu& gpu);

/// Whether the workspaces of norms and attention on this GPU are known. Others throw std::logic_error below.
bool knows(const Gpu& gpu);

/// RMSNorm of `rows` of `columns` elements in bf16, with the kernel that TeNormalizationRegistry chooses.
std::int64_t rms_norm_workspace(std::int64_t rows, std::int64_t columns, const Gpu& gpu);
/// ... of its backward: a sum of the weight's gradient for each row of blocks.
std::int64_t rms_norm_backward_workspace(std::int64_t rows, std::int64_t columns, const Gpu& gpu);

/// The widest head that cuDNN 9 computes attention and its gradients of, so that Transformer Engine takes it; a
/// multiple of 8.
std::int64_t widest_head(const Gpu& gpu);
/// Attention in bf16 or fp16 of any length, by cuDNN: queries [tokens, batch, heads, size], and `keys` tokens that they
/// attend to.
struct AttentionSizes {
  std::int64_t batch = 1, tokens = 1, heads = 1, groups = 1, size = 1, keys = tokens;
};
std::int64_t attention_workspace(const Gpu& gpu);
std::int64_t attention_backward_workspace(const AttentionSizes& sizes, const Gpu& gpu);

}  // namespace gpuplan::transformer_engine
