#include "validate/cuda/kernels/routing.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// A thread to a row: rows have an element for every expert.
template <class T>
__global__ void __launch_bounds__(kThreads) top_k_kernel(const T* x, T* values, std::int64_t* places, std::int64_t rows,
                                                         std::int64_t width, std::int64_t kept) {
  using C = accumulate_t<T>;
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  const T* of_row = x + row * width;
  std::int64_t last = -1;  // the one found before
  for (std::int64_t k = 0; k < kept; ++k) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < width; ++i) {
      const C value = widen<C>(of_row[i]);
      if (last >= 0) {
        const C before = widen<C>(of_row[last]);
        if (!(value < before || (value == before && i > last))) continue;
      }
      if (best < 0 || value > widen<C>(of_row[best])) best = i;
    }
    if (best < 0) best = 0;  // a row of NaNs
    values[row * kept + k] = of_row[best];
    places[row * kept + k] = best;
    last = best;
  }
}

// A thread to a number: it counts what stands before it.
__global__ void __launch_bounds__(kThreads)
    sort_kernel(const std::int64_t* x, std::int64_t* values, std::int64_t* places, std::int64_t n) {
  __shared__ std::int64_t tile[kThreads];
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t mine = me < n ? x[me] : 0;
  std::int64_t before = 0;
  for (std::int64_t first = 0; first < n; first += kThreads) {
    __syncthreads();
    if (first + threadIdx.x < n) tile[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    const int count = static_cast<int>(n - first < kThreads ? n - first : kThreads);
    for (int i = 0; i < count; ++i) before += tile[i] < mine || (tile[i] == mine && first + i < me) ? 1 : 0;
  }
  if (me >= n) return;
  values[before] = mine;
  places[before] = me;
}

// A block to a bin.
__global__ void __launch_bounds__(kThreads)
    count_kernel(const void* x, DType type, std::int64_t n, void* counts, DType count_type, std::int64_t bins,
                 double least, double most) {
  int mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
    const double value = load<double>(x, type, i);
    if (!(value >= least && value <= most)) continue;
    const auto bin = static_cast<std::int64_t>((value - least) * static_cast<double>(bins) / (most - least));
    mine += (bin < bins ? bin : bins - 1) == blockIdx.x ? 1 : 0;
  }
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, mine);  // of integers: the same in any order
  __syncthreads();
  if (threadIdx.x == 0) store<double>(counts, count_type, blockIdx.x, total);
}

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

template <class T, GroupedPass pass>
void run(const LaunchContext& context, const Grouped& a, std::int64_t experts, std::int64_t pairs) {
  const std::int64_t rows = pass == GroupedPass::of_weight ? a.n : pairs;
  const std::int64_t columns = pass == GroupedPass::forward ? a.n : a.m;
  const dim3 grid(blocks_for(columns, kSide, INT32_MAX), blocks_for(rows, kSide, INT32_MAX),
                  static_cast<unsigned>(experts));
  if (grid.y > 65535 || grid.z > 65535) refuse("more rows than a grid has");
  launch(grouped_kernel<T, pass>, grid, kSide * kTall, 0, context.stream, a);
}

}  // namespace

void top_k(const LaunchContext& context, const KernelTensor& x, const KernelTensor& values,
           const KernelTensor& places) {
  const std::int64_t width = x.sizes[x.rank - 1], kept = values.sizes[values.rank - 1];
  if (elements_of(values) == 0) return;
  const std::int64_t rows = elements_of(values) / kept;
  const bool known = for_floating(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch(top_k_kernel<T>, blocks_for(rows, kThreads, INT32_MAX), kThreads, 0, context.stream,
           static_cast<const T*>(x.data), static_cast<T*>(values.data), static_cast<std::int64_t*>(places.data), rows,
           width, kept);
  });
  if (!known) refuse("topk of integers");
  check_launch("topk");
}

void sort(const LaunchContext& context, const KernelTensor& x, const KernelTensor& values, const KernelTensor& places) {
  const std::int64_t n = elements_of(x);
  if (n == 0) return;
  launch(sort_kernel, blocks_for(n, kThreads, INT32_MAX), kThreads, 0, context.stream,
         static_cast<const std::int64_t*>(x.data), static_cast<std::int64_t*>(values.data),
         static_cast<std::int64_t*>(places.data), n);
  check_launch("sort");
}

void count_bins(const LaunchContext& context, const KernelTensor& x, const KernelTensor& counts, double least,
                double most) {
  const std::int64_t bins = elements_of(counts);
  if (bins == 0) return;
  launch(count_kernel, static_cast<unsigned>(bins), kThreads, 0, context.stream, x.data, x.dtype, elements_of(x),
         counts.data, counts.dtype, bins, least, most);
  check_launch("histc");
}

void grouped_product(const LaunchContext& context, GroupedPass pass, const KernelTensor& wide, const KernelTensor& deep,
                     const KernelTensor& weight, const KernelTensor& ends) {
  const Grouped a{wide.data,       deep.data,      weight.data, static_cast<const std::int32_t*>(ends.data),
                  weight.sizes[1], weight.sizes[2]};
  const std::int64_t experts = weight.sizes[0], pairs = wide.sizes[0];
  if (elements_of(weight) * pairs == 0) return;
  const bool known = for_floating(weight.dtype, [&](auto type) {
    using T = decltype(type);
    switch (pass) {
      case GroupedPass::forward: return run<T, GroupedPass::forward>(context, a, experts, pairs);
      case GroupedPass::of_input: return run<T, GroupedPass::of_input>(context, a, experts, pairs);
      case GroupedPass::of_weight: return run<T, GroupedPass::of_weight>(context, a, experts, pairs);
    }
  });
  if (!known) refuse("a product of integers");
  check_launch("a product for each expert");
}

}  // namespace gpuplan::cuda
