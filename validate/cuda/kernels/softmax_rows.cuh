// Softmax and its gradient of rows that are runs of memory.
#pragma once

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/packed.cuh"

namespace gpuplan::cuda {

constexpr int kSoftmaxThreads = 256, kWarp = 32;
constexpr int kHeld = 32;  // elements of a row that a thread holds, of all operands

struct Rows {
  std::int64_t count = 0, length = 0;
  std::int64_t steps[3] = {};  // along a row, by operand
  int across = 1;              // threads of a block on neighbouring rows; the others share a row
};

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }

// Rows that `threads` threads hold in registers, read and written once, 16 bytes at a time. `n`: elements that both
// types have in as much.
template <class In, class T, int n, int threads, bool log>
__global__ void __launch_bounds__(kSoftmaxThreads)
    forward_packed(const In* x, T* y, Rows rows, bool safe, Offsets<std::uint64_t, 2> offsets) {
  using C = accumulate_t<T>;
  constexpr int kPacks = kHeld / n;
  __shared__ C shared[kSoftmaxThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % threads, packs = static_cast<int>(rows.length) / n;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows.across + static_cast<int>(threadIdx.x) / threads;
  for (std::int64_t row = first; row < rows.count; row += std::int64_t{gridDim.x} * rows.across) {
    std::int64_t at[2] = {};
    offsets(static_cast<std::uint64_t>(row), at);
    const auto* from = reinterpret_cast<const Packed<In, n>*>(x + at[1]);
    auto* to = reinterpret_cast<Packed<T, n>*>(y + at[0]);
    C values[kPacks][n], most = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const bool there = lane + i * threads < packs;
      Packed<In, n> pack{};
      if (there) pack = from[lane + i * threads];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        values[i][k] = there ? widen<C>(pack.values[k]) : -INFINITY;
        most = values[i][k] > most || values[i][k] != values[i][k] ? values[i][k] : most;  // a NaN stays one
      }
    }
    most = over_block<threads>(most, shared, Most{});
    if (most == -INFINITY) most = C(0);  // exp(-inf) is 0, exp(-inf + inf) no number
#pragma unroll
    for (int i = 0; i < kPacks; ++i)
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C power = exponential(values[i][k] -= most);
        sum += power;
        if (!log) values[i][k] = power;
      }
    sum = over_block<threads>(sum, shared, Add{});
    const C logarithm_of_sum = logarithm(sum);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (lane + i * threads >= packs) continue;
      Packed<T, n> pack;
#pragma unroll
      for (int k = 0; k < n; ++k)
        pack.values[k] = narrow<T>(log                   ? values[i][k] - logarithm_of_sum
                                   : safe && sum == C(0) ? C(0)
                                                         : values[i][k] / sum);
      to[lane + i * threads] = pack;
    }
  }
}

template <class T, class Out, int n, int threads, bool log>
__global__ void __launch_bounds__(kSoftmaxThreads)
    backward_packed(const T* grad, const T* y, Out* dx, Rows rows, Offsets<std::uint64_t, 3> offsets) {
  using C = accumulate_t<T>;
  constexpr int kPacks = kHeld / (2 * n);
  __shared__ C shared[kSoftmaxThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % threads, packs = static_cast<int>(rows.length) / n;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows.across + static_cast<int>(threadIdx.x) / threads;
  for (std::int64_t row = first; row < rows.count; row += std::int64_t{gridDim.x} * rows.across) {
    std::int64_t at[3] = {};
    offsets(static_cast<std::uint64_t>(row), at);
    const auto* gradients = reinterpret_cast<const Packed<T, n>*>(grad + at[1]);
    const auto* results = reinterpret_cast<const Packed<T, n>*>(y + at[2]);
    auto* to = reinterpret_cast<Packed<Out, n>*>(dx + at[0]);
    Packed<T, n> g[kPacks], v[kPacks];
    C sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (lane + i * threads >= packs) continue;
      g[i] = gradients[lane + i * threads];
      v[i] = results[lane + i * threads];
#pragma unroll
      for (int k = 0; k < n; ++k)
        sum += log ? widen<C>(g[i].values[k]) : widen<C>(g[i].values[k]) * widen<C>(v[i].values[k]);
    }
    sum = over_block<threads>(sum, shared, Add{});
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (lane + i * threads >= packs) continue;
      Packed<Out, n> pack;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C one = widen<C>(g[i].values[k]), result = widen<C>(v[i].values[k]);
        pack.values[k] = narrow<Out>(log ? one - exponential(result) * sum : result * (one - sum));
      }
      to[lane + i * threads] = pack;
    }
  }
}

}  // namespace gpuplan::cuda
