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

}  // namespace gpuplan::cuda
