#include "validate/cuda/kernels/copy.h"

#include <cuda_runtime_api.h>

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/pointwise.h"

namespace gpuplan::cuda {
namespace {

constexpr int kTile = 32, kRows = 8;  // of a transposition: 32 x 32 elements by 32 x 8 threads
constexpr int kThreads = 256, kEach = 4;

struct Transposition {
  std::int64_t columns, rows;       // `to` is fastest over columns, `from` over rows
  std::int64_t to_step, from_step;  // over rows in `to`, over columns in `from`
  std::int64_t tiles_across, tiles;
};

// Reads along `from`'s fastest dimension, writes along `to`'s; the tile's odd width keeps banks apart.
template <class T>
__global__ void __launch_bounds__(kTile* kRows)
    transpose(const T* from, T* to, Transposition t, Offsets<std::uint64_t, 2> batch) {
  __shared__ T tile[kTile][kTile + 1];
  std::int64_t at[2];
  for (std::int64_t number = blockIdx.x; number < t.tiles; number += gridDim.x) {
    const std::int64_t across = number % t.tiles_across, rest = number / t.tiles_across;
    const std::int64_t down_tiles = (t.rows + kTile - 1) / kTile;
    const std::int64_t column = across * kTile, row = rest % down_tiles * kTile;
    batch(static_cast<std::uint64_t>(rest / down_tiles), at);
    for (int k = threadIdx.y; k < kTile; k += kRows) {
      const std::int64_t r = row + threadIdx.x, c = column + k;
      if (r < t.rows && c < t.columns) tile[k][threadIdx.x] = from[at[1] + r + c * t.from_step];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += kRows) {
      const std::int64_t r = row + k, c = column + threadIdx.x;
      if (r < t.rows && c < t.columns) to[at[0] + c + r * t.to_step] = tile[threadIdx.x][k];
    }
    __syncthreads();
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    gather_strided(const T* from, T* to, Offsets<Index, 2> offsets, std::int64_t n) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kEach + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const std::int64_t i = first + k * kThreads;
    if (i >= n) return;
    std::int64_t at[2];
    offsets(static_cast<Index>(i), at);
    to[at[0]] = from[at[1]];
  }
}

// Which dimension of the walk is `from`'s fastest, where that is not `to`'s and both are wide enough for tiles.
int transposed_dimension(const Walked& w) {
  constexpr std::int64_t kLeast = 8;
  if (w.rank < 2 || w.strides[0][0] != 1 || w.strides[1][0] == 1 || w.sizes[0] < kLeast) return 0;
  for (int i = 1; i < w.rank; ++i)
    if (w.strides[1][i] == 1 && w.sizes[i] >= kLeast) return i;
  return 0;
}

Walked without(const Walked& w, int i, int j) {
  Walked rest;
  for (int k = 0; k < w.rank; ++k) {
    if (k == i || k == j) continue;
    rest.sizes[rest.rank] = w.sizes[k];
    rest.strides[0][rest.rank] = w.strides[0][k];
    rest.strides[1][rest.rank++] = w.strides[1][k];
    rest.elements *= w.sizes[k];
  }
  return rest;
}

template <class T>
void run(const LaunchContext& context, const Walked& w, const void* source, void* target) {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(target);
  if (const int fastest = transposed_dimension(w); fastest != 0) {
    const Walked batch = without(w, 0, fastest);
    Transposition t{w.sizes[0], w.sizes[fastest], w.strides[0][fastest], w.strides[1][0], 0, 0};
    t.tiles_across = (t.columns + kTile - 1) / kTile;
    t.tiles = t.tiles_across * ((t.rows + kTile - 1) / kTile) * batch.elements;
    launch(transpose<T>, blocks_for(t.tiles, 1), dim3(kTile, kRows), 0, context.stream, from, to, t,
           Offsets<std::uint64_t, 2>(batch));
  } else if (w.elements < INT32_MAX) {
    launch(gather_strided<T, std::uint32_t>, blocks_for(w.elements, kThreads * kEach, INT32_MAX), kThreads, 0,
           context.stream, from, to, Offsets<std::uint32_t, 2>(w), w.elements);
  } else {
    launch(gather_strided<T, std::uint64_t>, blocks_for(w.elements, kThreads * kEach, INT32_MAX), kThreads, 0,
           context.stream, from, to, Offsets<std::uint64_t, 2>(w), w.elements);
  }
  check_launch("a strided copy");
}

// Elements are moved as they are: by their size. Equal runs are moved in the widest pieces that all offsets allow.
void run(const LaunchContext& context, Walked w, std::int64_t bytes, const void* from, void* to) {
  if (w.rank > 0 && w.strides[0][0] == 1 && w.strides[1][0] == 1) {
    const auto fits = [&](std::int64_t by) {
      const std::int64_t n = by / bytes;
      bool yes = w.sizes[0] % n == 0 && reinterpret_cast<std::uintptr_t>(from) % static_cast<std::uintptr_t>(by) == 0 &&
                 reinterpret_cast<std::uintptr_t>(to) % static_cast<std::uintptr_t>(by) == 0;
      for (int i = 1; i < w.rank; ++i) yes = yes && w.strides[0][i] % n == 0 && w.strides[1][i] % n == 0;
      return yes;
    };
    std::int64_t by = 16;
    while (by > bytes && !fits(by)) by /= 2;
    const std::int64_t n = by / bytes;
    w.sizes[0] /= n;
    w.elements /= n;
    for (int i = 1; i < w.rank; ++i) {
      w.strides[0][i] /= n;
      w.strides[1][i] /= n;
    }
    bytes = by;
  }
  switch (bytes) {
    case 1: return run<std::uint8_t>(context, w, from, to);
    case 2: return run<std::uint16_t>(context, w, from, to);
    case 4: return run<std::uint32_t>(context, w, from, to);
    case 8: return run<std::uint64_t>(context, w, from, to);
    default: return run<uint4>(context, w, from, to);
  }
}

// Bits that are all 0 are the number 0 of every type.
template <class T>
__global__ void __launch_bounds__(kThreads)
    triangle(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t n) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step)
    to[i] = i % columns > i / columns % rows ? T(0) : from[i];
}

bool broadcasts(const KernelTensor& from, const KernelTensor& to) {
  for (int i = 1; i <= from.rank; ++i) {
    const std::int64_t size = from.sizes[from.rank - i];
    if (i > to.rank ? size != 1 : size != 1 && size != to.sizes[to.rank - i]) return false;
  }
  return true;
}

// A row-major tensor's elements under other sizes.
KernelTensor reshaped(const KernelTensor& t, const KernelTensor& sizes) {
  KernelTensor r = sizes;
  r.data = t.data;
  r.dtype = t.dtype;
  std::int64_t step = 1;
  for (int i = r.rank; i-- > 0;) {
    r.strides[i] = step;
    step *= r.sizes[i];
  }
  return r;
}

}  // namespace

void copy(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to) {
  const std::int64_t n = elements_of(to);
  if (n == 0) return;
  if (!broadcasts(from, to)) {
    if (elements_of(from) != n) refuse("a copy to other than as many elements");
    if (is_row_major(to)) return copy(context, from, reshaped(to, from));
    if (is_row_major(from)) return copy(context, reshaped(from, to), to);
    refuse("a copy of other sizes without an order of its elements");
  }
  if (from.dtype != to.dtype) return convert(context, from, to);
  const std::int64_t bytes = size_of(to.dtype);
  if (same_layout(from, to) && is_dense(to)) {
    if (cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(n * bytes), cudaMemcpyDeviceToDevice,
                        context.stream) != cudaSuccess)
      check_launch("cudaMemcpyAsync");
    return;
  }
  std::int64_t steps[KernelTensor::kMaxRank] = {};
  broadcast_strides(from, to, steps);
  const std::int64_t* strides[] = {to.strides, steps};
  run(context, walked(to.rank, to.sizes, strides, 2), bytes, from.data, to.data);
}

void tril(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to) {
  const std::int64_t n = elements_of(to);
  if (n == 0) return;
  if (!is_row_major(from) || !is_row_major(to) || from.dtype != to.dtype) refuse("a triangle of another layout");
  const auto run = [&](auto type) {
    using T = decltype(type);
    launch(triangle<T>, blocks_for(n, kThreads), kThreads, 0, context.stream, static_cast<const T*>(from.data),
           static_cast<T*>(to.data), to.sizes[to.rank - 2], to.sizes[to.rank - 1], n);
  };
  switch (size_of(to.dtype)) {
    case 1: run(std::uint8_t{}); break;
    case 2: run(std::uint16_t{}); break;
    case 4: run(std::uint32_t{}); break;
    default: run(std::uint64_t{}); break;
  }
  check_launch("tril");
}

void flip(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to, unsigned dimensions) {
  if (elements_of(to) == 0) return;
  KernelTensor reversed = from;
  std::int64_t first = 0;
  for (int i = 0; i < from.rank; ++i) {
    if ((dimensions >> i & 1U) == 0) continue;
    first += (from.sizes[i] - 1) * from.strides[i];
    reversed.strides[i] = -from.strides[i];
  }
  reversed.data = static_cast<char*>(from.data) + first * size_of(from.dtype);
  const std::int64_t* strides[] = {to.strides, reversed.strides};
  run(context, walked(to.rank, to.sizes, strides, 2), size_of(to.dtype), reversed.data, to.data);
}

}  // namespace gpuplan::cuda
