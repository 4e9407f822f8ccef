// torch.nn.functional.scaled_dot_product_attention on CUDA: which backend runs, and everything that a call allocates
// and frees, in order. Pure functions of shapes, strides, dtypes, GPU and release.
//
// Rules from aten/src/ATen/native/transformers (attention.cpp, sdp_utils_cpp.h, cuda/sdp_utils.cpp, cuda/attention.cu,
// cuda/attention_backward.cu, cuda/flash_attn/flash_api.cpp, cuda/mem_eff_attention) and native/cudnn/MHA.cpp. Checked
// against recorded calls of PyTorch 2.15 and 2.8 (tests/shadow/attention.*.tsv); other releases are between those
// two as far as release notes tell, and not recorded. Before 2.0 there is only math. Deterministic mode, nested tensors
// and torch.func are not modelled.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/base/shape.h"
#include "estimator/base/strides.h"
#include "estimator/device/gpu.h"
#include "estimator/operators/operators.h"
#include "estimator/operators/reduction.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// torch.nn.attention.SDPBackend. math is a composite of ordinary operators; the others are one kernel.
///
/// What math does (_scaled_dot_product_attention_math), s being the root of the scale, the same in 2.8 and 2.15; before
/// 2.5 without the conversions to fp32 and with a plain softmax:
///   1. a boolean mask becomes an additive one (aten::where: two scalars, the result, scalars freed);
///   2. fp16 and bf16: q, k, v to fp32, in this order; qs = q * s (both keep q's layout);
///   3. causal: ones [L, S] bool, tril [L, S] bool, ones freed, then as in 1. in the dtype of qs; tril freed;
///   4. fewer key heads: repeat_interleave of k, then of v (contiguous copies);
///   5. ks = k * s; matmul(qs, ks^T): copies of qs, then of ks, where [batch * heads, ...] is no view of them; bmm
///      (saves its two operands); ks freed where it was copied;
///   6. the mask is added in place; it is not saved;
///   7. _safe_softmax: result (saved), isneginf [B, H, L, S] bool, all [B, H, L, 1] bool, a scalar; the three freed in
///      reverse, then the scores;
///   8. dropout: native_dropout's bool mask (saved) and result (saved by the next product, beside softmax's);
///   9. fp16 and bf16: a copy of the weights in that type, which the caller drops, before
///  10. matmul(weights, v): a copy of v as in 5., bmm, of which the result is a contiguous view;
///  11. fp16 and bf16: the result in that type. What 1. to 4., 9. and 10. made and no node saved ends with the call.
/// Backward: the gradient to fp32; a contiguous copy of it where it is none; bmm (the second operand's gradient, then
/// the first's); native_dropout_backward; _softmax_backward_data with its product; bmm as before (ks^T, then qs);
/// k's mul; the sums over groups for v, then k; q's mul; the conversions of v, k, q.
enum class AttentionBackend : std::uint8_t { flash, efficient, cudnn, math };
std::string_view name_of(AttentionBackend backend);

/// A tensor of rank 4 as it lies in memory; strides and offset in elements.
struct StridedTensor {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // from the start of its storage
};

/// Dense, its dimensions from the outermost to the innermost: {0, 1, 2, 3} is contiguous. For [batch, heads, length,
/// size] {0, 2, 1, 3} is what x.view(batch, length, heads, size).transpose(1, 2) makes. `shape` has rank 4.
StridedTensor dense_tensor(const Shape& shape, std::array<int, 4> order = {0, 1, 2, 3});

struct AttentionMask {
  StridedTensor tensor;  // of rank 4, with leading dimensions of 1 as broadcasting adds them
  bool boolean = false;  // else additive, of the query's dtype
  bool requires_grad = false;
};

/// query [batch, heads, L, size], key [batch, kv_heads, S, size], value [batch, kv_heads, S, value size]. With fewer
/// kv_heads than heads enable_gqa=True is meant.
struct AttentionCall {
  StridedTensor query, key, value;
  DType dtype = DType::fp32;
  std::optional<AttentionMask> mask;
  double dropout = 0;          // of the call: 0 in evaluation
  bool causal = false;         // is_causal=True
  bool requires_grad = false;  // grad mode is on and query, key or value requires a gradient
  bool batched = true;         // false: PyTorch is given [heads, length, size], here with a batch of 1
};

/// The backend that PyTorch takes, or `wanted` if given, as torch.nn.attention.sdpa_kernel(wanted) does. Throws Error
/// (usage) with the reason when the wanted one cannot run the call.
AttentionBackend choose_attention(const AttentionCall& call, const Gpu& gpu, PyTorchVersion pytorch,
                                  std::optional<AttentionBackend> wanted = {});

/// Why a backend cannot run the call, in words that follow its name ("takes no mask"); "" when it can.
std::string attention_refusal(const AttentionCall& call, AttentionBackend backend, const Gpu& gpu,
                              PyTorchVersion pytorch);

/// A tensor that has a part in a call.
enum class AttentionValue : std::uint8_t {
  query,
  key,
  value,
  mask,
  grad_out,       // given
  additive_mask,  // a boolean mask as 0 and -inf
  aligned_mask,   // padded to rows of a multiple of 8 elements
  padded_query,
  padded_key,
  padded_value,  // head size padded to a multiple of 8
  out,           // what the call returns, or its padded form, of which that is a slice
  logsumexp,
  seed,
  offset,
  rng_state,
  unused,
  padded_grad_out,
  padded_grad_query,
  padded_grad_key,
  padded_grad_value,
  grad_query,
  grad_key,
  grad_value,
  grad_scores,          // of the mask as the kernel sees it: [batch, heads, L, S]
  grad_broadcast_mask,  // of the mask with its own shape
  grad_aligned_mask,    // of the padded one
  grad_mask
};

struct AttentionOutput {
  AttentionValue value = AttentionValue::out;
  StridedTensor tensor;  // scalars and vectors have shape {1, 1, 1, n}
  DType dtype = DType::fp32;
  std::int64_t bytes = 0;  // of its storage, which may be larger than the shape says (rows are aligned)
};

/// One operator. `program` is everything that it allocates and frees: kResultAllocation allocates the next of
/// `outputs`, the rest is as in ScratchProgram; what is not freed in it is freed when the operator ends.
struct AttentionStep {
  Operator op;
  std::vector<AttentionValue> reads;
  std::vector<AttentionOutput> outputs;
  ScratchProgram program;
  std::vector<AttentionValue> saved;  // forward: by the autograd node of this operator
};

/// Columns of the mask that the efficient kernel reads, 8 elements of a row at a time: those of the mask, or of a copy
/// with aligned rows (sdp_utils, pad_bias, aligned_tensor<8>). Of rank 4.
std::int64_t padded_mask_columns(const StridedTensor& mask);

/// The operators of a forward call in order; {} for math. Usually one; conversions of a mask and padding of head sizes
/// come before it. A value that no later step reads and no node saved (a boolean mask's additive form once it is
/// padded) is released after its last reader. With padded head sizes the call returns out[..., :value size], a view.
/// `engine_workspace`: with cuDNN's own workspace, modelled by what its heuristics (9.26) ask for on Hopper in calls of
/// more than one query; what the cuDNN frontend allocates beside it is always there.
std::vector<AttentionStep> attention_forward(const AttentionCall& call, AttentionBackend backend, const Gpu& gpu,
                                             PyTorchVersion pytorch, bool engine_workspace);

/// The operators of the backward pass in order; {} for math. `grad_out` is the gradient of what the call returned.
/// Each step is an autograd node of its own.
std::vector<AttentionStep> attention_backward(const AttentionCall& call, AttentionBackend backend,
                                              const StridedTensor& grad_out, const Gpu& gpu, PyTorchVersion pytorch,
                                              bool engine_workspace);

}  // namespace gpuplan
