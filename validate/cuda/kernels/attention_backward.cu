// The gradients of attention from the forward pass's logsumexp: the probabilities are computed again.
#include <cuda_runtime_api.h>

#include "validate/cuda/kernels/attention_fragments.h"
#include "validate/cuda/kernels/attention_tile.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kWarp = 32;

// sums[row] = grad . out, which is what each row's softmax subtracts. A warp to a row.
template <class C>
__global__ void __launch_bounds__(kAttentionThreads)
    sum_rows(const __grid_constant__ AttentionCall a, std::int64_t rows) {
  const AttentionShape& s = a.shape;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * (kAttentionThreads / kWarp);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (kAttentionThreads / kWarp) + threadIdx.x / kWarp; row < rows;
       row += step) {
    const int i = static_cast<int>(row % s.queries), head = static_cast<int>(row / s.queries);
    const int b = head / s.heads, h = head % s.heads;
    const auto grad = a.grad.at(b, h, s.queries, s.value_size);
    const auto out = a.out.at(b, h, s.queries, s.value_size);
    C sum = 0;
    for (int k = lane; k < s.value_size; k += kWarp)
      sum += load<C>(grad.data, grad.dtype, i * grad.step + k) * load<C>(out.data, out.dtype, i * out.step + k);
#pragma unroll
    for (int half = kWarp / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, half);
    if (lane == 0) static_cast<C*>(a.row_sums)[row] = sum;
  }
}

// What one query has beside its vectors.
template <class C>
struct Row {
  C logsumexp, sum;
};

template <class C>
__device__ __forceinline__ Row<C> row_at(const AttentionCall& a, int b, int h, int i) {
  if (i >= a.shape.queries) return {C(0), C(0)};
  const std::int64_t row = (std::int64_t{b} * a.shape.heads + h) * a.shape.queries + i;
  return {
      load<C>(a.logsumexp.data, a.logsumexp.dtype, b * a.logsumexp.batch + h * a.logsumexp.head + i * a.logsumexp.row),
      static_cast<const C*>(a.row_sums)[row]};
}

template <class C>
struct Score {
  C probability, slope;  // what multiplies the value's gradient; the gradient of the score
};

// `product`: of query i and key j; `gain`: of the result's gradient and the value.
template <class C>
__device__ __forceinline__ Score<C> score(const AttentionCall& a, int b, int h, int i, int j, C product, C gain,
                                          const Row<C>& row) {
  const AttentionShape& s = a.shape;
  if (i >= s.queries || j >= s.keys || (a.causal && j > i)) return {C(0), C(0)};
  if (row.logsumexp == -INFINITY) return {C(0), C(0)};  // a row that sees nothing
  const C p = exp(a.mask.apply(product * static_cast<C>(a.scale), b, h, i, j) - row.logsumexp);
  const std::int64_t number = (std::int64_t{b} * s.heads + h) * s.queries + i;
  const C kept = static_cast<C>(a.dropping.factor(number, s.keys, j));
  return {p * kept, p * (gain * kept - row.sum)};
}

// A block to kSide queries: it goes through the keys.
template <class C, int size>
__global__ void __launch_bounds__(kAttentionThreads) query_gradient(const __grid_constant__ AttentionCall a) {
  using S = Tile<C, size>;
  unsigned char* const memory = dynamic_shared();
  C* queries = reinterpret_cast<C*>(memory);
  C* grads = queries + S::kElements;
  C* tile = grads + S::kElements;
  C* slopes = tile + S::kElements;
  const AttentionShape& s = a.shape;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
  const int b = static_cast<int>(blockIdx.y) / s.heads, h = static_cast<int>(blockIdx.y) % s.heads;
  const int first = static_cast<int>(blockIdx.x) * S::kSide;
  const auto keys = a.key.at(b, h / s.group, s.keys, s.size);
  const auto values = a.value.at(b, h / s.group, s.keys, s.value_size);
  load_tile<C, size>(a.query.at(b, h, s.queries, s.size), first, queries);
  load_tile<C, size>(a.grad.at(b, h, s.queries, s.value_size), first, grads);
  Row<C> rows[S::kRows];
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) rows[r] = row_at<C>(a, b, h, first + y * S::kRows + r);

  Sums<C, size> sums;
  clear<C, size>(sums);
  const int end = a.causal && first + S::kSide < s.keys ? first + S::kSide : s.keys;
  for (int key = 0; key < end; key += S::kSide) {
    C gains[S::kRows][S::kColumns], products[S::kRows][S::kColumns];
    __syncthreads();
    load_tile<C, size>(values, key, tile);
    __syncthreads();
    multiply_rows<C, size>(grads, tile, gains);
    __syncthreads();
    load_tile<C, size>(keys, key, tile);
    __syncthreads();
    multiply_rows<C, size>(queries, tile, products);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r)
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c) {
        const int i = first + y * S::kRows + r, j = key + x + c * kThreadColumns;
        const C slope = score(a, b, h, i, j, products[r][c], gains[r][c], rows[r]).slope;
        products[r][c] = slope * static_cast<C>(a.scale);
        if (a.grad_mask.data != nullptr && i < s.queries && j < s.keys)
          store<C>(a.grad_mask.at(b, h, s.queries, s.keys).data, a.grad_mask.dtype, i * a.grad_mask.row + j, slope);
      }
    put_scores<C, size>(products, slopes);
    __syncthreads();
    add_product<C, size>(slopes, tile, sums);
  }
  put_rows<C, size>(sums, first, a.grad_query.at(b, h, s.queries, s.size));
}

// A block to kSide keys: it goes through the queries of the heads that share them. Scores stand with a key to a row.
template <class C, int size>
__global__ void __launch_bounds__(kAttentionThreads) key_gradients(const __grid_constant__ AttentionCall a) {
  using S = Tile<C, size>;
  unsigned char* const memory = dynamic_shared();
  C* keys = reinterpret_cast<C*>(memory);
  C* values = keys + S::kElements;
  C* tile = values + S::kElements;
  C* scores = tile + S::kElements;
  const AttentionShape& s = a.shape;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
  const int groups = s.heads / s.group;
  const int b = static_cast<int>(blockIdx.y) / groups, g = static_cast<int>(blockIdx.y) % groups;
  const int first = static_cast<int>(blockIdx.x) * S::kSide;
  load_tile<C, size>(a.key.at(b, g, s.keys, s.size), first, keys);
  load_tile<C, size>(a.value.at(b, g, s.keys, s.value_size), first, values);

  Sums<C, size> of_key, of_value;
  clear<C, size>(of_key);
  clear<C, size>(of_value);
  const int start = a.causal ? first / S::kSide * S::kSide : 0;  // earlier queries do not see these keys
  for (int h = g * s.group; h < (g + 1) * s.group; ++h) {
    const auto queries = a.query.at(b, h, s.queries, s.size);
    const auto grads = a.grad.at(b, h, s.queries, s.value_size);
    for (int query = start; query < s.queries; query += S::kSide) {
      C gains[S::kRows][S::kColumns], products[S::kRows][S::kColumns];
      __syncthreads();
      load_tile<C, size>(queries, query, tile);
      __syncthreads();
      multiply_rows<C, size>(keys, tile, products);
      __syncthreads();
      load_tile<C, size>(grads, query, tile);
      __syncthreads();
      multiply_rows<C, size>(values, tile, gains);
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c) {
        const int i = query + x + c * kThreadColumns;
        const Row<C> row = row_at<C>(a, b, h, i);
#pragma unroll
        for (int r = 0; r < S::kRows; ++r) {
          const Score<C> one = score(a, b, h, i, first + y * S::kRows + r, products[r][c], gains[r][c], row);
          products[r][c] = one.slope * static_cast<C>(a.scale);
          gains[r][c] = one.probability;
        }
      }
      put_scores<C, size>(gains, scores);
      __syncthreads();
      add_product<C, size>(scores, tile, of_value);
      __syncthreads();
      put_scores<C, size>(products, scores);
      load_tile<C, size>(queries, query, tile);
      __syncthreads();
      add_product<C, size>(scores, tile, of_key);
    }
  }
  put_rows<C, size>(of_key, first, a.grad_key.at(b, g, s.keys, s.size));
  put_rows<C, size>(of_value, first, a.grad_value.at(b, g, s.keys, s.value_size));
}

template <class C, int size>
void launch_tiles(const LaunchContext& context, const AttentionCall& call) {
  using S = Tile<C, size>;
  constexpr int kBytes = static_cast<int>(sizeof(C)) * (3 * S::kElements + S::kScores);
  const AttentionShape& s = call.shape;
  const auto of_query = query_gradient<C, size>;
  const auto of_key = key_gradients<C, size>;
  if (cudaFuncSetAttribute(of_query, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) != cudaSuccess ||
      cudaFuncSetAttribute(of_key, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) != cudaSuccess)
    check_launch("attention's shared memory");
  const auto heads = static_cast<unsigned>(s.batch * s.heads);
  launch(of_query, dim3(blocks_for(s.queries, S::kSide), heads), kAttentionThreads, kBytes, context.stream, call);
  check_launch("attention's gradient of the queries");
  const dim3 grid(blocks_for(s.keys, S::kSide), heads / static_cast<unsigned>(s.group));
  launch(of_key, grid, kAttentionThreads, kBytes, context.stream, call);
  check_launch("attention's gradient of the keys and values");
}

template <class C>
void launch_sums(const LaunchContext& context, const AttentionCall& call) {
  const std::int64_t rows = std::int64_t{call.shape.batch} * call.shape.heads * call.shape.queries;
  launch(sum_rows<C>, blocks_for(rows, kAttentionThreads / kWarp), kAttentionThreads, 0, context.stream, call, rows);
  check_launch("the row sums of attention's gradient");
}

}  // namespace

void attention_backward(const LaunchContext& context, const AttentionTensors& t, const AttentionArguments& arguments,
                        void* row_sums) {
  if (elements_of(t.out) == 0) return;
  AttentionCall call = attention_call(t, arguments);
  call.row_sums = row_sums;
  if (t.grad_mask.data != nullptr && arguments.causal) fill(context, t.grad_mask, 0);  // blocks that nobody visits
  if (call.query.dtype == DType::fp64)
    launch_sums<double>(context, call);
  else
    launch_sums<float>(context, call);
  if (attends_by_fragments(context, call)) return attention_backward_by_fragments(context, call);
  for_tiles(call,
            [&](auto computed, auto size) { launch_tiles<decltype(computed), decltype(size)::value>(context, call); });
}

}  // namespace gpuplan::cuda
