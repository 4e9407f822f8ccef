// What the attention kernels share: tiles of queries and keys in shared memory, and their products. 128 threads stand
// 16 by 8 over a square of scores; the eight of a row are neighbours in a warp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "validate/cuda/kernels/attention.h"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/executor/random.h"

namespace gpuplan::cuda {

constexpr int kAttentionThreads = 128, kThreadRows = 16, kThreadColumns = 8;

/// `size`: the head size, padded. Pitches keep the 16 bytes that eight neighbouring threads read in different banks.
template <class C, int size>
struct Tile {
  // Three tiles of the backward pass fit in the 64 KiB of Turing's multiprocessors.
  static constexpr int kSide = sizeof(C) == sizeof(double) || size > 128 ? 16 : 32;
  static constexpr int kRows = kSide / kThreadRows, kColumns = kSide / kThreadColumns;  // of a thread's scores
  static constexpr int kWide = size / (4 * kThreadColumns);  // quadruples of a row's elements that a thread has
  static constexpr int kPitch = size + 4, kScorePitch = kSide + 4;
  static constexpr int kElements = kSide * kPitch, kScores = kSide * kScorePitch;
};

/// One tensor at one sample and head. Its type is known when the kernel runs: kernels are compiled for the type that
/// they compute in, not for each that is stored.
struct HeadRows {
  void* data;
  DType dtype;
  std::int64_t step;  // from row to row
  int count, size;
};

/// Calls f with a value of the stored type, of those that are computed in C.
template <class C, class F>
__device__ __forceinline__ void for_stored(DType dtype, F&& f) {
  if constexpr (sizeof(C) == sizeof(double)) {
    f(double{});
  } else {
    switch (dtype) {
      case DType::fp16: return f(__half{});
      case DType::bf16: return f(__nv_bfloat16{});
      default: return f(float{});
    }
  }
}

/// 16 bytes a thread and access where rows begin at multiples of that.
template <class C, int size>
__device__ __forceinline__ void load_tile(const HeadRows& from, int first, C* tile) {
  using S = Tile<C, size>;
  for_stored<C>(from.dtype, [&](auto stored) {
    using T = decltype(stored);
    constexpr int n = kPack<T>;
    const auto* data = static_cast<const T*>(from.data);
    const bool packs = from.step % n == 0 && from.size % n == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
    if (packs) {
#pragma unroll 2
      for (int i = static_cast<int>(threadIdx.x); i < S::kSide * size / n; i += kAttentionThreads) {
        const int row = i / (size / n), column = i % (size / n) * n;
        const bool there = first + row < from.count && column < from.size;
        Packed<T, n> values{};
        if (there) values = *reinterpret_cast<const Packed<T, n>*>(data + (first + row) * from.step + column);
#pragma unroll
        for (int k = 0; k < n; ++k) tile[row * S::kPitch + column + k] = widen<C>(values.values[k]);
      }
      return;
    }
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < S::kSide * size; i += kAttentionThreads) {
      const int row = i / size, column = i % size;
      const bool there = first + row < from.count && column < from.size;
      tile[row * S::kPitch + column] = there ? widen<C>(data[(first + row) * from.step + column]) : C(0);
    }
  });
}

/// scores[r][c] = row (r of mine) of a times row (c of mine) of b.
template <class C, int size>
__device__ __forceinline__ void multiply_rows(const C* a, const C* b,
                                              C (&scores)[Tile<C, size>::kRows][Tile<C, size>::kColumns]) {
  using S = Tile<C, size>;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
#pragma unroll
  for (int r = 0; r < S::kRows; ++r)
#pragma unroll
    for (int c = 0; c < S::kColumns; ++c) scores[r][c] = C(0);
#pragma unroll 4
  for (int k = 0; k < size; k += 4) {
    C left[S::kRows][4], right[S::kColumns][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) left[r][i] = a[(y * S::kRows + r) * S::kPitch + k + i];
#pragma unroll
      for (int c = 0; c < S::kColumns; ++c) right[c][i] = b[(x + c * kThreadColumns) * S::kPitch + k + i];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int r = 0; r < S::kRows; ++r)
#pragma unroll
        for (int c = 0; c < S::kColumns; ++c) scores[r][c] += left[r][i] * right[c][i];
  }
}

template <class C, int size>
__device__ __forceinline__ void put_scores(const C (&scores)[Tile<C, size>::kRows][Tile<C, size>::kColumns], C* to) {
  using S = Tile<C, size>;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
#pragma unroll
  for (int r = 0; r < S::kRows; ++r)
#pragma unroll
    for (int c = 0; c < S::kColumns; ++c)
      to[(y * S::kRows + r) * S::kScorePitch + x + c * kThreadColumns] = scores[r][c];
}

template <class C, int size>
using Sums = C[Tile<C, size>::kRows][Tile<C, size>::kWide][4];

/// sums += scores times the tile: of my rows, the elements 4 x + 32 j ...
template <class C, int size>
__device__ __forceinline__ void add_product(const C* scores, const C* tile, Sums<C, size>& sums) {
  using S = Tile<C, size>;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
#pragma unroll 4
  for (int k = 0; k < S::kSide; ++k) {
    C left[S::kRows];
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) left[r] = scores[(y * S::kRows + r) * S::kScorePitch + k];
#pragma unroll
    for (int j = 0; j < S::kWide; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const C right = tile[k * S::kPitch + 4 * (x + j * kThreadColumns) + i];
#pragma unroll
        for (int r = 0; r < S::kRows; ++r) sums[r][j][i] += left[r] * right;
      }
  }
}

template <class C, int size>
__device__ __forceinline__ void clear(Sums<C, size>& sums) {
#pragma unroll
  for (int r = 0; r < Tile<C, size>::kRows; ++r)
#pragma unroll
    for (int j = 0; j < Tile<C, size>::kWide; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[r][j][i] = C(0);
}

template <class C, int size>
__device__ __forceinline__ void put_rows(const Sums<C, size>& sums, int first, const HeadRows& to) {
  using S = Tile<C, size>;
  const int y = static_cast<int>(threadIdx.x) / kThreadColumns, x = static_cast<int>(threadIdx.x) % kThreadColumns;
  for_stored<C>(to.dtype, [&](auto stored) {
    using T = decltype(stored);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const int row = first + y * S::kRows + r;
      if (row >= to.count) continue;
      T* data = static_cast<T*>(to.data) + row * to.step;
#pragma unroll
      for (int j = 0; j < S::kWide; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 4 * (x + j * kThreadColumns) + i;
          if (column < to.size) data[column] = narrow<T>(sums[r][j][i]);
        }
    }
  });
}

/// The tensors of a call as a kernel takes them.
struct AttentionShape {
  int batch, heads, group, queries, keys, size, value_size;
};

struct Strided {
  void* data;
  DType dtype;
  std::int64_t batch, head, row;

  __device__ __forceinline__ HeadRows at(int b, int h, int rows, int size) const {
    const std::int64_t first = b * batch + h * head;
    return {static_cast<char*>(data) + first * size_of(dtype), dtype, row, rows, size};
  }
};

struct Mask {
  const void* data;  // null: none
  DType dtype;
  std::int64_t batch, head, row, column;

  /// The score of query i and key j with the mask: a number is added, false rules out.
  template <class C>
  __device__ __forceinline__ C apply(C score, int b, int h, int i, int j) const {
    if (data == nullptr) return score;
    const C value = load<C>(data, dtype, b * batch + h * head + i * row + j * column);
    if (dtype == DType::boolean) return value != C(0) ? score : -INFINITY;
    return score + value;
  }
};

struct Dropping {
  float p, scale;
  std::uint64_t seed;

  /// What the probability of (row of all queries and heads, key) is multiplied by.
  __device__ __forceinline__ float factor(std::int64_t row, int keys, int key) const {
    if (p == 0.0F) return 1.0F;
    return uniform(seed, static_cast<std::uint64_t>(row * keys + key)) >= p ? scale : 0.0F;
  }
};

struct AttentionCall {
  AttentionShape shape;
  Strided query, key, value, out, grad, grad_query, grad_key, grad_value;
  Strided logsumexp, grad_mask;
  Mask mask;
  Dropping dropping;
  double scale;
  bool causal;
  void* row_sums;
};

/// Host: calls f with zero of the type that is computed in, and the head size that tiles are padded to, as an
/// integral_constant. In double there is one: no plan attends in it but to be compared.
template <class F>
void for_tiles(const AttentionCall& call, F&& f) {
  const int size = call.shape.size > call.shape.value_size ? call.shape.size : call.shape.value_size;
  if (call.query.dtype == DType::fp64) return f(double{}, std::integral_constant<int, 128>{});
  if (size <= 32) return f(float{}, std::integral_constant<int, 32>{});
  if (size <= 64) return f(float{}, std::integral_constant<int, 64>{});
  if (size <= 96) return f(float{}, std::integral_constant<int, 96>{});
  if (size <= 128) return f(float{}, std::integral_constant<int, 128>{});
  return f(float{}, std::integral_constant<int, 256>{});
}

/// Host: the call of these tensors.
AttentionCall attention_call(const AttentionTensors& t, const AttentionArguments& a);

}  // namespace gpuplan::cuda
