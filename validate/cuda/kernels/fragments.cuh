// Products of half types on tensor cores: fragments of 16 by 16, summed in fp32 ("CUDA C++ Programming Guide", warp
// matrix functions). Which element of a fragment a thread holds is not documented: what is done to elements by their
// row goes through shared memory, or by a second fragment of the same type, whose elements lie alike.
#pragma once

#ifdef __CUDACC__
#include <mma.h>
#endif

#include <cstdint>
#include <type_traits>

#include "validate/cuda/kernels/numbers.cuh"

namespace gpuplan::cuda {

namespace wmma = nvcuda::wmma;

constexpr int kFragment = 16, kWarpThreads = 32;
constexpr int kFragmentAlignment = 32;  // bytes, of the first element in memory

template <class T>
using Left = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, T, wmma::row_major>;
template <class T>
using Right = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, wmma::row_major>;
/// Of a matrix that lies transposed.
template <class T>
using LeftTurned = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, T, wmma::col_major>;
template <class T>
using RightTurned = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, wmma::col_major>;
using FragmentSum = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;

/// Of the architecture that is compiled for: fp16 from Volta on, bf16 from Ampere on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <class T>
constexpr bool kHasFragments = std::is_same_v<T, __half>;
#else
template <class T>
constexpr bool kHasFragments = true;
#endif

/// Host: whether a GPU has them; compute_capability is 10 * major + minor.
inline bool multiplies_fragments(DType type, int compute_capability) {
  return (type == DType::fp16 && compute_capability >= 70) || (type == DType::bf16 && compute_capability >= 80);
}

/// Dynamic shared memory from where fragments may begin; it is asked for with kFragmentAlignment more.
__device__ __forceinline__ unsigned char* fragment_aligned(unsigned char* memory) {
  const auto past = reinterpret_cast<std::uintptr_t>(memory) % kFragmentAlignment;
  return past == 0 ? memory : memory + (kFragmentAlignment - past);
}

template <int n>
__device__ __forceinline__ void clear(FragmentSum (&sums)[n]) {
#pragma unroll
  for (FragmentSum& sum : sums) wmma::fill_fragment(sum, 0.0F);
}

template <int n>
__device__ __forceinline__ void multiply(FragmentSum (&sums)[n], float by) {
#pragma unroll
  for (FragmentSum& sum : sums)
#pragma unroll
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= by;
}

/// scores[16][16 n], in memory of `score_pitch` to a row, = a [16][depth] times the transpose of b [16 n][depth]. One
/// warp's work; its lanes see the scores after __syncwarp().
template <class T, int n, int depth, int pitch, int score_pitch>
__device__ __forceinline__ void multiply_transposed(const T* a, const T* b, float* scores) {
  FragmentSum sums[n];
  clear(sums);
#pragma unroll
  for (int k = 0; k < depth; k += kFragment) {
    Left<T> left;
    wmma::load_matrix_sync(left, a + k, pitch);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      RightTurned<T> right;
      wmma::load_matrix_sync(right, b + j * kFragment * pitch + k, pitch);
      wmma::mma_sync(sums[j], left, right, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < n; ++j)
    wmma::store_matrix_sync(scores + j * kFragment, sums[j], score_pitch, wmma::mem_row_major);
}

/// sums [16][16 n] += a [16][depth] times b [depth][16 n].
template <class T, int n, int depth, int a_pitch, int b_pitch>
__device__ __forceinline__ void add_product(const T* a, const T* b, FragmentSum (&sums)[n]) {
#pragma unroll
  for (int k = 0; k < depth; k += kFragment) {
    Left<T> left;
    wmma::load_matrix_sync(left, a + k, a_pitch);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      Right<T> right;
      wmma::load_matrix_sync(right, b + k * b_pitch + j * kFragment, b_pitch);
      wmma::mma_sync(sums[j], left, right, sums[j]);
    }
  }
}

}  // namespace gpuplan::cuda
