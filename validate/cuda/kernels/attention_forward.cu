#include <cuda_runtime_api.h>

#include "validate/cuda/kernels/attention_fragments.h"
#include "validate/cuda/kernels/attention_tile.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

// A block to kSide queries of one head: it goes through the keys with the running maximum and sum of each row (Milakov
// and Gimelshein, "Online normalizer calculation for softmax", 2018).
template <class C, int size>
__global__ void __launch_bounds__(kAttentionThreads) forward(const __grid_constant__ AttentionCall a) {
  using S = Tile<C, size>;
  unsigned char* const memory = dynamic_shared();
  C* queries = reinterpret_cast<C*>(memory);
  C* tile = queries + S::kElements;
  C* probabilities = tile + S::kElements;
  const AttentionShape& s = a.shape;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
  const int b = static_cast<int>(blockIdx.y) / s.heads, h = static_cast<int>(blockIdx.y) % s.heads;
  const int first = static_cast<int>(blockIdx.x) * S::kSide;
  const auto keys = a.key.at(b, h / s.group, s.keys, s.size);
  const auto values = a.value.at(b, h / s.group, s.keys, s.value_size);
  load_tile<C, size>(a.query.at(b, h, s.queries, s.size), first, queries);

  C most[S::kRows], sum[S::kRows];
  Sums<C, size> out;
  clear<C, size>(out);
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) most[r] = -INFINITY, sum[r] = C(0);
  const int end = a.causal && first + S::kSide < s.keys ? first + S::kSide : s.keys;
  for (int key = 0; key < end; key += S::kSide) {
    __syncthreads();
    load_tile<C, size>(keys, key, tile);
    __syncthreads();
    C scores[S::kRows][S::kColumns];
    multiply_rows<C, size>(queries, tile, scores);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const int i = first + y * S::kRows + r;
      C highest = most[r];
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c) {
        const int j = key + x + c * kThreadColumns;
        const bool seen = i < s.queries && j < s.keys && (!a.causal || j <= i);
        scores[r][c] = seen ? a.mask.apply(scores[r][c] * static_cast<C>(a.scale), b, h, i, j) : -INFINITY;
        highest = scores[r][c] > highest || scores[r][c] != scores[r][c] ? scores[r][c] : highest;
      }
#pragma unroll
      for (int lane = kThreadColumns / 2; lane > 0; lane /= 2) {
        const C other = __shfl_xor_sync(0xFFFFFFFFU, highest, lane);
        highest = other > highest || other != other ? other : highest;
      }
      const C base = highest == -INFINITY ? C(0) : highest;  // a row that sees nothing yet
      const C shrink = exp(most[r] - base);
      C part = 0;
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c) {
        const int j = key + x + c * kThreadColumns;
        const C p = exp(scores[r][c] - base);
        part += p;
        const std::int64_t row = std::int64_t{blockIdx.y} * s.queries + i;
        scores[r][c] = p * static_cast<C>(a.dropping.factor(row, s.keys, j));
      }
#pragma unroll
      for (int lane = kThreadColumns / 2; lane > 0; lane /= 2) part += __shfl_xor_sync(0xFFFFFFFFU, part, lane);
      sum[r] = sum[r] * shrink + part;
      most[r] = highest;
#pragma unroll
      for (int j = 0; j < S::kWide; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) out[r][j][k] *= shrink;
    }
    __syncthreads();
    put_scores<C, size>(scores, probabilities);
    load_tile<C, size>(values, key, tile);
    __syncthreads();
    add_product<C, size>(probabilities, tile, out);
  }
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    const C inverse = sum[r] != C(0) ? C(1) / sum[r] : C(0);
#pragma unroll
    for (int j = 0; j < S::kWide; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k) out[r][j][k] *= inverse;
    const int i = first + y * S::kRows + r;
    if (x == 0 && i < s.queries && a.logsumexp.data != nullptr)
      store<C>(a.logsumexp.data, a.logsumexp.dtype, b * a.logsumexp.batch + h * a.logsumexp.head + i * a.logsumexp.row,
               most[r] + log(sum[r]));
  }
  put_rows<C, size>(out, first, a.out.at(b, h, s.queries, s.value_size));
}

template <class C, int size>
void launch_tiles(const LaunchContext& context, const AttentionCall& call) {
  using S = Tile<C, size>;
  constexpr int kBytes = static_cast<int>(sizeof(C)) * (2 * S::kElements + S::kScores);
  const auto kernel = forward<C, size>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) != cudaSuccess)
    check_launch("attention's shared memory");
  const dim3 grid(blocks_for(call.shape.queries, S::kSide),
                  static_cast<unsigned>(call.shape.batch) * static_cast<unsigned>(call.shape.heads));
  launch(kernel, grid, kAttentionThreads, kBytes, context.stream, call);
  check_launch("attention");
}

Strided strided(const KernelTensor& t) { return {t.data, t.dtype, t.strides[0], t.strides[1], t.strides[2]}; }

}  // namespace

const char* attention_refusal(const AttentionTensors& t) {
  for (const KernelTensor* x : {&t.query, &t.key, &t.value, &t.out}) {
    if (x->rank != 4 || !is_floating(x->dtype) || x->dtype != t.query.dtype)
      return "attention of other than [B, H, L, D]";
    if (x->strides[3] != 1 && x->sizes[3] != 1) return "attention of rows with gaps";
    if (x->sizes[3] > kMostHeadSize) return "attention of heads of more than 256 elements";
    if (x->dtype == DType::fp64 && x->sizes[3] > kMostHeadSizeInDouble)
      return "attention of heads of more than 128 elements in double";
  }
  if (t.query.sizes[1] % t.key.sizes[1] != 0 || t.key.sizes[1] != t.value.sizes[1]) return "heads that form no groups";
  if (t.query.sizes[0] * t.query.sizes[1] > 65535) return "more than 65,535 samples and heads";
  if (t.mask.rank > 4) return "a mask of more than four dimensions";
  return "";
}

AttentionCall attention_call(const AttentionTensors& t, const AttentionArguments& a) {
  AttentionCall call{};
  const auto size = [](std::int64_t n) { return static_cast<int>(n); };
  call.shape = {size(t.query.sizes[0]), size(t.query.sizes[1]), size(t.query.sizes[1] / t.key.sizes[1]),
                size(t.query.sizes[2]), size(t.key.sizes[2]),   size(t.query.sizes[3]),
                size(t.value.sizes[3])};
  call.query = strided(t.query);
  call.key = strided(t.key);
  call.value = strided(t.value);
  call.out = strided(t.out);
  call.grad = strided(t.grad);
  call.grad_query = strided(t.grad_query);
  call.grad_key = strided(t.grad_key);
  call.grad_value = strided(t.grad_value);
  call.logsumexp = strided(t.logsumexp);
  call.grad_mask = strided(t.grad_mask);
  if (t.mask.data != nullptr) {
    KernelTensor scores = t.query;
    scores.sizes[3] = t.key.sizes[2];
    std::int64_t steps[KernelTensor::kMaxRank] = {};
    broadcast_strides(t.mask, scores, steps);
    call.mask = {t.mask.data, t.mask.dtype, steps[0], steps[1], steps[2], steps[3]};
  }
  const double kept = a.dropout < 1 ? 1 / (1 - a.dropout) : 0;
  call.dropping = {static_cast<float>(a.dropout), static_cast<float>(kept), a.seed};
  call.scale = a.scale;
  call.causal = a.causal;
  return call;
}

void attention(const LaunchContext& context, const AttentionTensors& t, const AttentionArguments& arguments) {
  if (elements_of(t.out) == 0) return;
  const AttentionCall call = attention_call(t, arguments);
  if (attends_by_fragments(context, call)) return attention_by_fragments(context, call);
  for_tiles(call,
            [&](auto computed, auto size) { launch_tiles<decltype(computed), decltype(size)::value>(context, call); });
}

}  // namespace gpuplan::cuda
