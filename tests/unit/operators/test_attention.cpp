// Rules of attention that a table of recorded calls cannot show; test_attention_recorded.cpp has the calls.
#include <doctest/doctest.h>

#include <vector>

#include "estimator/base/error.h"
#include "estimator/operators/attention.h"

namespace gpuplan {
namespace {

Gpu gpu_with(int major, int sm_count) {
  Gpu gpu;
  gpu.capability_major = major;
  gpu.capability_minor = 0;
  gpu.sm_count = sm_count;
  return gpu;
}
Gpu h200() { return gpu_with(9, 132); }
Gpu a100() { return gpu_with(8, 108); }

/// As x.view(batch, length, heads, size).transpose(1, 2).
StridedTensor projected(std::int64_t heads, std::int64_t length, std::int64_t size) {
  return dense_tensor({2, heads, length, size}, {0, 2, 1, 3});
}

AttentionCall call_of(DType dtype, std::int64_t length, std::int64_t size) {
  AttentionCall call;
  call.query = call.key = call.value = projected(4, length, size);
  call.dtype = dtype;
  call.requires_grad = true;
  return call;
}

}  // namespace

TEST_CASE("cuDNN comes first on Hopper in 2.9 and from 2.11 on") {
  // check_prefer_cudnn_attention: 2.9 asks for the cuDNN it was built with, 2.10 for one newer than its wheels bring
  // (pytorch/pytorch#162073, huggingface/transformers#48163).
  const AttentionCall call = call_of(DType::bf16, 128, 64);
  CHECK(choose_attention(call, h200(), 208) == AttentionBackend::flash);
  CHECK(choose_attention(call, h200(), 209) == AttentionBackend::cudnn);
  CHECK(choose_attention(call, h200(), 210) == AttentionBackend::flash);
  CHECK(choose_attention(call, h200(), 211) == AttentionBackend::cudnn);
  CHECK(choose_attention(call, a100(), 211) == AttentionBackend::flash);
}

TEST_CASE("there is only math before 2.0") {
  CHECK(choose_attention(call_of(DType::fp16, 128, 64), a100(), 113) == AttentionBackend::math);
}

TEST_CASE("inputs without a batch are math's before 2.15") {
  // Read off F.scaled_dot_product_attention of [4, 128, 64] tensors in both releases.
  AttentionCall call = call_of(DType::fp32, 128, 64);
  call.batched = false;
  CHECK(choose_attention(call, h200(), 208) == AttentionBackend::math);
  CHECK(choose_attention(call, h200(), 215) == AttentionBackend::efficient);
}

TEST_CASE("a backend that cannot run a call says why") {
  AttentionCall call = call_of(DType::fp32, 128, 64);
  CHECK_THROWS_WITH_AS(choose_attention(call, h200(), 215, AttentionBackend::flash),
                       "flash attention cannot run this call: it needs fp16 or bf16", Error);
  CHECK(attention_refusal(call, AttentionBackend::math, h200(), 215).empty());
}

TEST_CASE("what an attention kernel's node saves") {
  // derivatives.yaml; read off grad_fn._saved_* in 2.15.
  using enum AttentionValue;
  const auto saved = [](const AttentionCall& call, AttentionBackend backend, PyTorchVersion pytorch) {
    return attention_forward(call, backend, h200(), pytorch, false).back().saved;
  };
  const AttentionCall half = call_of(DType::bf16, 128, 64);
  CHECK(saved(half, AttentionBackend::flash, 215) == std::vector{query, key, value, out, logsumexp, rng_state, unused});
  CHECK(saved(half, AttentionBackend::cudnn, 215) == std::vector{query, key, value, out, logsumexp, seed, offset});
  CHECK(saved(half, AttentionBackend::efficient, 208) == std::vector{query, key, value, out, logsumexp});
  AttentionCall masked = half;
  masked.mask = AttentionMask{dense_tensor({2, 1, 128, 100}), true, false};
  CHECK(saved(masked, AttentionBackend::cudnn, 215).back() == additive_mask);
  CHECK(saved(masked, AttentionBackend::efficient, 215).back() == aligned_mask);
  AttentionCall frozen = half;
  frozen.requires_grad = false;
  CHECK(saved(frozen, AttentionBackend::flash, 215).empty());
}

TEST_CASE("cuDNN's engine adds 256 bytes, and the gradients of every head of grouped keys and values") {
  // Read with cuDNN 9.26's heuristics for an H200: [2, 8, 128, 64] with 2 key heads, bf16: forward 256; backward
  // 1057024 = 2*8*128*64*4 (query gradient) + 2*8*128*4 (a sum a row) + 2 * 2*8*128*64*2 + 256.
  AttentionCall call = call_of(DType::bf16, 128, 64);
  call.query = projected(8, 128, 64);
  call.key = call.value = projected(2, 128, 64);
  const auto forward = attention_forward(call, AttentionBackend::cudnn, h200(), 215, true);
  CHECK(forward.back().program == ScratchProgram{0, 0, 0, 0, 256, -1});  // seed, offset, out, logsumexp
  const auto backward = attention_backward(call, AttentionBackend::cudnn, call.query, h200(), 215, true);
  CHECK(backward.back().program == ScratchProgram{0, 0, 0, 1057024, -1});
}

TEST_CASE("an absurd attention is an error, not a wrapped number") {
  const std::int64_t huge = std::int64_t{1} << 40;
  AttentionCall call = call_of(DType::fp32, 128, 64);
  call.query.shape = {huge, huge, 2, 64};
  CHECK_THROWS_AS(attention_forward(call, AttentionBackend::efficient, h200(), 215, false), Error);
}

}  // namespace gpuplan
