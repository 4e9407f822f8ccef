// Sums over the threads of a block, in one order.
#pragma once

namespace gpuplan::cuda {

struct Add {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Most {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a > b ? a : b;
  }
};

/// Of `count` threads (a power of two) that lie `stride` apart; every thread gets its own group's value. `shared` has
/// room for the whole block. All threads of the block take part.
template <class C, class Combine>
__device__ __forceinline__ C over_threads(C value, C* shared, int count, int stride, Combine combine) {
  const int me = static_cast<int>(threadIdx.x), mine = me / stride % count;
  __syncthreads();
  shared[me] = value;
  __syncthreads();
  for (int half = count / 2; half > 0; half /= 2) {
    if (mine < half) shared[me] = combine(shared[me], shared[me + half * stride]);
    __syncthreads();
  }
  return shared[me - mine * stride];
}

/// Of a whole block of `threads`, by shuffles within warps. `shared` has room for 32.
template <int threads, class C, class Combine>
__device__ __forceinline__ C over_block(C value, C* shared, Combine combine) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, lane));
  if constexpr (threads > 32) {
    constexpr int kWarps = threads / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[threadIdx.x % kWarps];
#pragma unroll
    for (int lane = kWarps / 2; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, lane));
  }
  return value;
}

}  // namespace gpuplan::cuda
