// What the attention kernels on tensor cores share. A block's warps have 16 rows each of the `kOwn` that it owns
// (queries, or keys in the gradient of the keys); it goes through the others kOthers at a time. Scores of a warp's rows
// pass through shared memory, where each row belongs to two lanes, and become probabilities of the stored type there.
#pragma once

#include "validate/cuda/kernels/attention_fragments.h"
#include "validate/cuda/kernels/attention_tile.cuh"
#include "validate/cuda/kernels/fragments.cuh"
#include "validate/cuda/kernels/launch.cuh"

namespace gpuplan::cuda {

/// `padded`: the head size, as a multiple of 16. Pitches spread the rows over the banks.
template <int padded, int others, int warps>
struct FragmentBlock {
  static constexpr int kSize = padded, kOthers = others, kThreads = warps * kWarpThreads, kOwn = warps * kFragment;
  static constexpr int kWide = padded / kFragment;  // fragments that a row of heads is wide
  static constexpr int kPitch = padded + 8, kScorePitch = others + 4, kHalfPitch = others + 8,
                       kRowPitch = kFragment + 4;
  static constexpr int kHalves = kFragment * kHalfPitch / 2;  // in floats: the probabilities of a warp
  static constexpr int kBoth = kHalves + kFragment * kRowPitch;
  /// Floats of a warp: its scores, then probabilities and a number for each row in their place.
  static constexpr int kWarpFloats = kBoth > kFragment* kScorePitch ? kBoth : kFragment* kScorePitch;
  /// A lane's scores of its row: quadruples of neighbours, placed so that the lanes of a warp read all banks.
  static constexpr int kQuads = others / 8, kGroup = kQuads < 4 ? kQuads : 4;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpThreads; }
  static __device__ __forceinline__ int row() { return lane() / 2; }
  static __device__ __forceinline__ int column(int quad) {
    return 4 * (quad / kGroup * 2 * kGroup + lane() % 2 * kGroup + quad % kGroup);
  }
};

using Quad = Packed<float, 4>;

/// Of `count` rows from `first` on; what is not there is zero. 16 bytes a thread and access where rows begin at
/// multiples of that.
template <class T, class G, int count>
__device__ __forceinline__ void load_rows(const HeadRows& from, int first, T* tile) {
  constexpr int n = kPack<T>;
  const auto* data = static_cast<const T*>(from.data);
  const bool packs = from.step % n == 0 && from.size % n == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count * G::kSize / n; i += G::kThreads) {
    const int row = i / (G::kSize / n), column = i % (G::kSize / n) * n;
    Packed<T, n> values{};
    if (first + row < from.count) {
      const T* source = data + (first + row) * from.step + column;
      if (packs) {
        if (column < from.size) values = *reinterpret_cast<const Packed<T, n>*>(source);
      } else {
        for (int k = 0; k < n; ++k)
          if (column + k < from.size) values.values[k] = source[k];
      }
    }
    *reinterpret_cast<Packed<T, n>*>(tile + row * G::kPitch + column) = values;
  }
}

template <class G>
__device__ __forceinline__ void read_scores(const float* scores, Quad (&mine)[G::kQuads]) {
#pragma unroll
  for (int q = 0; q < G::kQuads; ++q)
    mine[q] = *reinterpret_cast<const Quad*>(scores + G::row() * G::kScorePitch + G::column(q));
}

/// In the place of the scores, which all lanes must have read.
template <class T, class G>
__device__ __forceinline__ void write_halves(const Quad (&mine)[G::kQuads], float* scores) {
  T* halves = reinterpret_cast<T*>(scores);
#pragma unroll
  for (int q = 0; q < G::kQuads; ++q) {
    Packed<T, 4> rounded;
#pragma unroll
    for (int k = 0; k < 4; ++k) rounded.values[k] = narrow<T>(mine[q].values[k]);
    *reinterpret_cast<Packed<T, 4>*>(halves + G::row() * G::kHalfPitch + G::column(q)) = rounded;
  }
}

/// The number of its row for a later multiply_by_row(), behind the halves.
template <class G>
__device__ __forceinline__ void write_row_number(float number, float* scores) {
  float* numbers = scores + G::kHalves + G::row() * G::kRowPitch + G::lane() % 2 * (kFragment / 2);
#pragma unroll
  for (int k = 0; k < kFragment / 2; ++k) numbers[k] = number;
}

template <class G>
__device__ __forceinline__ void multiply_by_row(const float* scores, FragmentSum (&sums)[G::kWide]) {
  FragmentSum numbers;
  wmma::load_matrix_sync(numbers, scores + G::kHalves, G::kRowPitch, wmma::mem_row_major);
#pragma unroll
  for (int j = 0; j < G::kWide; ++j)
#pragma unroll
    for (int i = 0; i < numbers.num_elements; ++i) sums[j].x[i] *= numbers.x[i];
}

/// The warp's rows, from `first` on, through its scores' memory.
template <class T, class G>
__device__ __forceinline__ void write_rows(const FragmentSum (&sums)[G::kWide], int first, const HeadRows& to,
                                           float* scores) {
  constexpr int kAtOnce = G::kOthers / kFragment;
  const int row = first + G::row();
  T* data = static_cast<T*>(to.data) + row * to.step;
  const bool packs = to.step % 4 == 0 && to.size % 4 == 0 && reinterpret_cast<std::uintptr_t>(to.data) % 8 == 0;
#pragma unroll
  for (int j = 0; j < G::kWide; j += kAtOnce) {
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (j + k < G::kWide)
        wmma::store_matrix_sync(scores + k * kFragment, sums[j + k], G::kScorePitch, wmma::mem_row_major);
    __syncwarp();
    if (row >= to.count) continue;
#pragma unroll
    for (int q = 0; q < G::kQuads; ++q) {
      const int column = j * kFragment + G::column(q);
      if (column >= to.size) continue;
      const Quad wide = *reinterpret_cast<const Quad*>(scores + G::row() * G::kScorePitch + G::column(q));
      Packed<T, 4> rounded;
#pragma unroll
      for (int k = 0; k < 4; ++k) rounded.values[k] = narrow<T>(wide.values[k]);
      if (packs) {
        *reinterpret_cast<Packed<T, 4>*>(data + column) = rounded;
      } else {
        for (int k = 0; k < 4; ++k)
          if (column + k < to.size) data[column + k] = rounded.values[k];
      }
    }
  }
}

/// Host: calls f with zero of the stored type and the head size that tiles are padded to.
template <class F>
void for_fragments(const AttentionCall& call, F&& f) {
  const int size = call.shape.size > call.shape.value_size ? call.shape.size : call.shape.value_size;
  const auto sized = [&](auto type) {
    if (size <= 32) return f(type, std::integral_constant<int, 32>{});
    if (size <= 64) return f(type, std::integral_constant<int, 64>{});
    if (size <= 96) return f(type, std::integral_constant<int, 96>{});
    if (size <= 128) return f(type, std::integral_constant<int, 128>{});
    return f(type, std::integral_constant<int, 256>{});
  };
  if (call.query.dtype == DType::fp16) return sized(__half{});
  sized(__nv_bfloat16{});
}

}  // namespace gpuplan::cuda
