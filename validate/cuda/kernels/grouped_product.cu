// A product for each expert of a mixture: on tensor cores for the half types, where the GPU has them.
#include <type_traits>

#include "validate/cuda/kernels/fragments.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/cuda/kernels/routing.h"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kSide = 32, kTall = 8;  // tiles of kSide by kSide, kSide by kTall threads

struct Grouped {
  const void *wide, *deep, *weight;  // one of them is written
  const std::int32_t* ends;
  std::int64_t n, m;
};

// The sums of a tile of kSide by kSide: of a(row, i) b(i, column) over i.
template <class C, class A, class B>
__device__ __forceinline__ void multiply(std::int64_t depth, A&& a, B&& b, C (&sums)[kSide / kTall]) {
  __shared__ C left[kSide][kSide + 1], right[kSide][kSide + 1];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  for (std::int64_t first = 0; first < depth; first += kSide) {
    __syncthreads();
    for (int k = y; k < kSide; k += kTall) {
      left[k][x] = first + x < depth ? a(k, first + x) : C(0);
      right[k][x] = first + k < depth ? b(first + k, x) : C(0);
    }
    __syncthreads();
    for (int i = 0; i < kSide; ++i)
#pragma unroll
      for (int r = 0; r < kSide / kTall; ++r) sums[r] += left[y + r * kTall][i] * right[i][x];
  }
}

// blockIdx.x: a tile of columns, y: one of rows, z: the expert.
template <class T, GroupedPass pass>
__global__ void __launch_bounds__(kSide* kTall) grouped_kernel(Grouped a) {
  using C = accumulate_t<T>;
  const std::int64_t e = blockIdx.z, begin = e == 0 ? 0 : a.ends[e - 1], end = a.ends[e];
  const std::int64_t column = std::int64_t{blockIdx.x} * kSide, row = std::int64_t{blockIdx.y} * kSide;
  const auto* wide = static_cast<const T*>(a.wide);
  const auto* deep = static_cast<const T*>(a.deep);
  const auto* weight = static_cast<const T*>(a.weight) + e * a.n * a.m;
  constexpr bool kOfWeight = pass == GroupedPass::of_weight;
  const std::int64_t rows = kOfWeight ? a.n : end - begin, columns = pass == GroupedPass::forward ? a.n : a.m;
  if (row >= rows || column >= columns) return;
  const auto at = [](const T* from, std::int64_t width, std::int64_t i, std::int64_t j, std::int64_t height) {
    return i < height && j < width ? widen<C>(from[i * width + j]) : C(0);
  };
  C sums[kSide / kTall] = {};
  if constexpr (pass == GroupedPass::forward)
    multiply<C>(
        a.m, [&](int r, std::int64_t i) { return at(deep, a.m, begin + row + r, i, end); },
        [&](std::int64_t i, int c) { return at(weight, a.m, column + c, i, a.n); }, sums);
  else if constexpr (pass == GroupedPass::of_input)
    multiply<C>(
        a.n, [&](int r, std::int64_t i) { return at(wide, a.n, begin + row + r, i, end); },
        [&](std::int64_t i, int c) { return at(weight, a.m, i, column + c, a.n); }, sums);
  else
    multiply<C>(
        end - begin, [&](int r, std::int64_t i) { return at(wide, a.n, begin + i, row + r, end); },
        [&](std::int64_t i, int c) { return at(deep, a.m, begin + i, column + c, end); }, sums);
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  T* out =
      kOfWeight ? const_cast<T*>(weight) : const_cast<T*>(pass == GroupedPass::forward ? wide : deep) + begin * columns;
#pragma unroll
  for (int r = 0; r < kSide / kTall; ++r) {
    const std::int64_t i = row + y + r * kTall, j = column + x;
    if (i < rows && j < columns) out[i * columns + j] = narrow<T>(sums[r]);
  }
}

// Tiles of 64 by 64 of the result, to which four warps of 32 by 32 add a depth of 32 at a time.
constexpr int kFragmentSide = 64, kFragmentDepth = 32, kWarpSide = 32, kFragmentThreads = 128, kSpare = 8;
constexpr int kWarpFragments = kWarpSide / kFragment;

// Of a row-major matrix of `height` by `width`; what is outside is zero.
template <class T, int rows, int columns>
__device__ __forceinline__ void load_part(const T* from, std::int64_t height, std::int64_t width, std::int64_t row,
                                          std::int64_t column, T* tile) {
  constexpr int n = kPack<T>;
  const bool packs = width % n == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns / n; i += kFragmentThreads) {
    const int y = i / (columns / n), x = i % (columns / n) * n;
    Packed<T, n> values{};
    if (row + y < height) {
      const T* source = from + (row + y) * width + column + x;
      if (packs) {
        if (column + x < width) values = *reinterpret_cast<const Packed<T, n>*>(source);
      } else {
        for (int k = 0; k < n; ++k)
          if (column + x + k < width) values.values[k] = source[k];
      }
    }
    *reinterpret_cast<Packed<T, n>*>(tile + y * (columns + kSpare) + x) = values;
  }
}

// The matrices of one expert, row-major: which is turned over the pass says.
template <class T>
struct Factors {
  const T *left, *right;
  std::int64_t rows, columns, depth;
};

template <class T, bool turns_left, bool turns_right>
__device__ __forceinline__ void add_products(const Factors<T>& f, std::int64_t row, std::int64_t column,
                                             FragmentSum (&sums)[kWarpFragments][kWarpFragments]) {
  constexpr int kLeftPitch = (turns_left ? kFragmentSide : kFragmentDepth) + kSpare,
                kRightPitch = (turns_right ? kFragmentDepth : kFragmentSide) + kSpare;
  __shared__ __align__(32) T left[turns_left ? kFragmentDepth * kLeftPitch : kFragmentSide * kLeftPitch];
  __shared__ __align__(32) T right[turns_right ? kFragmentSide * kRightPitch : kFragmentDepth * kRightPitch];
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int y = warp / 2 * kWarpSide, x = warp % 2 * kWarpSide;
  for (std::int64_t first = 0; first < f.depth; first += kFragmentDepth) {
    __syncthreads();
    if constexpr (turns_left)
      load_part<T, kFragmentDepth, kFragmentSide>(f.left, f.depth, f.rows, first, row, left);
    else
      load_part<T, kFragmentSide, kFragmentDepth>(f.left, f.rows, f.depth, row, first, left);
    if constexpr (turns_right)
      load_part<T, kFragmentSide, kFragmentDepth>(f.right, f.columns, f.depth, column, first, right);
    else
      load_part<T, kFragmentDepth, kFragmentSide>(f.right, f.depth, f.columns, first, column, right);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kFragmentDepth; k += kFragment) {
      std::conditional_t<turns_left, LeftTurned<T>, Left<T>> a[kWarpFragments];
      std::conditional_t<turns_right, RightTurned<T>, Right<T>> b[kWarpFragments];
#pragma unroll
      for (int i = 0; i < kWarpFragments; ++i) {
        const int r = y + i * kFragment, c = x + i * kFragment;
        wmma::load_matrix_sync(a[i], left + (turns_left ? k * kLeftPitch + r : r * kLeftPitch + k), kLeftPitch);
        wmma::load_matrix_sync(b[i], right + (turns_right ? c * kRightPitch + k : k * kRightPitch + c), kRightPitch);
      }
#pragma unroll
      for (int i = 0; i < kWarpFragments; ++i)
#pragma unroll
        for (int j = 0; j < kWarpFragments; ++j) wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
    }
  }
}

template <class T>
__device__ __forceinline__ void write_sums(const FragmentSum (&sums)[kWarpFragments][kWarpFragments], std::int64_t row,
                                           std::int64_t column, std::int64_t rows, std::int64_t columns, T* out) {
  constexpr int kPitch = kWarpSide + 4;
  __shared__ __align__(32) float staged[kFragmentThreads / kWarpThreads][kFragment * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads, lane = static_cast<int>(threadIdx.x) % kWarpThreads;
#pragma unroll
  for (int i = 0; i < kWarpFragments; ++i) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kWarpFragments; ++j)
      wmma::store_matrix_sync(staged[warp] + j * kFragment, sums[i][j], kPitch, wmma::mem_row_major);
    __syncwarp();
    for (int r = 0; r < kFragment; ++r) {
      const std::int64_t y = row + warp / 2 * kWarpSide + i * kFragment + r, x = column + warp % 2 * kWarpSide + lane;
      if (y < rows && x < columns) out[y * columns + x] = narrow<T>(staged[warp][r * kPitch + lane]);
    }
  }
}

// Blocks as grouped_kernel's.
template <class T, GroupedPass pass>
__device__ __forceinline__ void multiply_fragments(const Grouped& a) {
  constexpr bool kForward = pass == GroupedPass::forward, kOfWeight = pass == GroupedPass::of_weight;
  const std::int64_t e = blockIdx.z, begin = e == 0 ? 0 : a.ends[e - 1], count = a.ends[e] - begin;
  const std::int64_t row = std::int64_t{blockIdx.y} * kFragmentSide, column = std::int64_t{blockIdx.x} * kFragmentSide;
  T* wide = static_cast<T*>(const_cast<void*>(a.wide)) + begin * a.n;
  T* deep = static_cast<T*>(const_cast<void*>(a.deep)) + begin * a.m;
  T* weight = static_cast<T*>(const_cast<void*>(a.weight)) + e * a.n * a.m;
  const Factors<T> f{kForward ? deep : wide, kOfWeight ? deep : weight, kOfWeight ? a.n : count, kForward ? a.n : a.m,
                     kForward    ? a.m
                     : kOfWeight ? count
                                 : a.n};
  if (row >= f.rows || column >= f.columns) return;
  FragmentSum sums[kWarpFragments][kWarpFragments];
  for (auto& wider : sums) clear(wider);
  add_products<T, kOfWeight, kForward>(f, row, column, sums);
  write_sums(sums, row, column, f.rows, f.columns, kForward ? wide : kOfWeight ? weight : deep);
}

template <class T, GroupedPass pass>
__global__ void __launch_bounds__(kFragmentThreads) grouped_by_fragments(Grouped a) {
  if constexpr (kHasFragments<T>) multiply_fragments<T, pass>(a);
}

template <class T, GroupedPass pass>
void run(const LaunchContext& context, DType type, const Grouped& a, std::int64_t experts, std::int64_t pairs) {
  const std::int64_t rows = pass == GroupedPass::of_weight ? a.n : pairs;
  const std::int64_t columns = pass == GroupedPass::forward ? a.n : a.m;
  const bool fragments = multiplies_fragments(type, context.compute_capability);
  const int side = fragments ? kFragmentSide : kSide;
  const dim3 grid(blocks_for(columns, side, INT32_MAX), blocks_for(rows, side, INT32_MAX),
                  static_cast<unsigned>(experts));
  if (grid.y > 65535 || grid.z > 65535) refuse("more rows than a grid has");
  if constexpr (sizeof(T) == 2)
    if (fragments) return launch(grouped_by_fragments<T, pass>, grid, kFragmentThreads, 0, context.stream, a);
  launch(grouped_kernel<T, pass>, grid, kSide * kTall, 0, context.stream, a);
}

}  // namespace

void grouped_product(const LaunchContext& context, GroupedPass pass, const KernelTensor& wide, const KernelTensor& deep,
                     const KernelTensor& weight, const KernelTensor& ends) {
  const Grouped a{wide.data,       deep.data,      weight.data, static_cast<const std::int32_t*>(ends.data),
                  weight.sizes[1], weight.sizes[2]};
  const std::int64_t experts = weight.sizes[0], pairs = wide.sizes[0];
  if (elements_of(weight) * pairs == 0) return;
  const bool known = for_floating(weight.dtype, [&](auto type) {
    using T = decltype(type);
    switch (pass) {
      case GroupedPass::forward: return run<T, GroupedPass::forward>(context, weight.dtype, a, experts, pairs);
      case GroupedPass::of_input: return run<T, GroupedPass::of_input>(context, weight.dtype, a, experts, pairs);
      case GroupedPass::of_weight: return run<T, GroupedPass::of_weight>(context, weight.dtype, a, experts, pairs);
    }
  });
  if (!known) refuse("a product of integers");
  check_launch("a product for each expert");
}

}  // namespace gpuplan::cuda
