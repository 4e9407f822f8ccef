#include "validate/cuda/kernels/layer_norm.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float inverse_root(float x) { return rsqrtf(x); }
__device__ __forceinline__ double inverse_root(double x) { return rsqrt(x); }

template <class T>
struct Forward {
  const T *x, *weight, *bias;
  T* y;
  accumulate_t<T>*mean, *rstd;
  std::int64_t rows, columns;
  accumulate_t<T> eps;
};

// A block to a row, which is read three times, from the cache after the first: mean, variance, result.
template <class T, int n, bool rms>
__global__ void __launch_bounds__(kThreads) forward(Forward<T> a) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  const std::int64_t packs = a.columns / n;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto* x = reinterpret_cast<const Packed<T, n>*>(a.x + row * a.columns);
    C mean = 0;
    if constexpr (!rms) {
      for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
        const Packed<T, n> v = x[i];
#pragma unroll
        for (int k = 0; k < n; ++k) mean += widen<C>(v.values[k]);
      }
      mean = over_block<kThreads>(mean, shared, Add{}) / static_cast<C>(a.columns);
    }
    C squares = 0;
    for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
      const Packed<T, n> v = x[i];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C d = widen<C>(v.values[k]) - mean;
        squares += d * d;
      }
    }
    squares = over_block<kThreads>(squares, shared, Add{});
    const C rstd = inverse_root(squares / static_cast<C>(a.columns) + a.eps);
    auto* y = reinterpret_cast<Packed<T, n>*>(a.y + row * a.columns);
    for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
      const Packed<T, n> v = x[i];
      Packed<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        C value = (widen<C>(v.values[k]) - mean) * rstd;
        if (a.weight != nullptr) value *= widen<C>(a.weight[i * n + k]);
        if (a.bias != nullptr) value += widen<C>(a.bias[i * n + k]);
        out.values[k] = narrow<T>(value);
      }
      y[i] = out;
    }
    if (threadIdx.x == 0) {
      if (a.mean != nullptr) a.mean[row] = mean;
      if (a.rstd != nullptr) a.rstd[row] = rstd;
    }
  }
}

template <class T>
struct Backward {
  const T *grad, *x, *weight;
  const accumulate_t<T>*mean, *rstd;
  T* dx;
  std::int64_t rows, columns;
};

template <class T, int n, bool rms>
__global__ void __launch_bounds__(kThreads) backward(Backward<T> a) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  const std::int64_t packs = a.columns / n;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto* x = reinterpret_cast<const Packed<T, n>*>(a.x + row * a.columns);
    const auto* grad = reinterpret_cast<const Packed<T, n>*>(a.grad + row * a.columns);
    const C mean = rms ? C(0) : a.mean[row], rstd = a.rstd[row];
    const auto weighted = [&](T g, std::int64_t column) {
      return a.weight != nullptr ? widen<C>(g) * widen<C>(a.weight[column]) : widen<C>(g);
    };
    C sum = 0, product = 0;
    for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
      const Packed<T, n> v = x[i], g = grad[i];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C d = weighted(g.values[k], i * n + k);
        sum += d;
        product += d * (widen<C>(v.values[k]) - mean) * rstd;
      }
    }
    if constexpr (!rms) sum = over_block<kThreads>(sum, shared, Add{}) / static_cast<C>(a.columns);
    product = over_block<kThreads>(product, shared, Add{}) / static_cast<C>(a.columns);
    auto* dx = reinterpret_cast<Packed<T, n>*>(a.dx + row * a.columns);
    for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
      const Packed<T, n> v = x[i], g = grad[i];
      Packed<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const C normal = (widen<C>(v.values[k]) - mean) * rstd;
        const C d = weighted(g.values[k], i * n + k);
        out.values[k] = narrow<T>(rstd * (d - (rms ? C(0) : sum) - normal * product));
      }
      dx[i] = out;
    }
  }
}

constexpr int kAcross = 32, kDown = kThreads / kAcross;

// Sums over a chunk of the rows: of grad times the normalised input, and of grad.
template <class T, bool rms>
__global__ void __launch_bounds__(kThreads) column_sums(Backward<T> a, std::int64_t chunk, accumulate_t<T>* partial) {
  using C = accumulate_t<T>;
  __shared__ C shared[2][kDown][kAcross];
  const int x = static_cast<int>(threadIdx.x) % kAcross, y = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t column = std::int64_t{blockIdx.x} * kAcross + x;
  const std::int64_t first = blockIdx.y * chunk, end = first + chunk;
  const std::int64_t last = end < a.rows ? end : a.rows;
  C weight = 0, bias = 0;
  if (column < a.columns) {
    for (std::int64_t row = first + y; row < last; row += kDown) {
      const C g = widen<C>(a.grad[row * a.columns + column]);
      const C mean = rms ? C(0) : a.mean[row];
      weight += g * (widen<C>(a.x[row * a.columns + column]) - mean) * a.rstd[row];
      bias += g;
    }
  }
  shared[0][y][x] = weight;
  shared[1][y][x] = bias;
  __syncthreads();
  if (y > 1 || column >= a.columns) return;
  C sum = 0;
#pragma unroll
  for (int k = 0; k < kDown; ++k) sum += shared[y][k][x];
  partial[(blockIdx.y * 2 + y) * a.columns + column] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_chunks(const accumulate_t<T>* partial, T* dweight, T* dbias, std::int64_t columns, int chunks) {
  using C = accumulate_t<T>;
  const std::int64_t column = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= columns) return;
  C weight = 0, bias = 0;
  for (int k = 0; k < chunks; ++k) {
    weight += partial[2 * k * columns + column];
    bias += partial[(2 * k + 1) * columns + column];
  }
  if (dweight != nullptr) dweight[column] = narrow<T>(weight);
  if (dbias != nullptr) dbias[column] = narrow<T>(bias);
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

template <class T, bool rms>
void run_forward(const LaunchContext& context, const LayerNormTensors& t, double eps) {
  using C = accumulate_t<T>;
  const Forward<T> a{data<T>(t.x), data<T>(t.weight), data<T>(t.bias),
                     data<T>(t.y), data<C>(t.mean),   data<C>(t.rstd),
                     t.rows,       t.columns,         static_cast<C>(eps)};
  const bool packs = t.columns % kPack<T> == 0 && aligned(a.x, 16) && aligned(a.y, 16);
  const auto kernel = packs ? forward<T, kPack<T>, rms> : forward<T, 1, rms>;
  launch(kernel, blocks_for(t.rows, 1), kThreads, 0, context.stream, a);
  check_launch("layer norm");
}

template <class T, bool rms>
void run_backward(const LaunchContext& context, const LayerNormTensors& t) {
  using C = accumulate_t<T>;
  const Backward<T> a{data<T>(t.grad), data<T>(t.x), data<T>(t.weight), data<C>(t.mean), data<C>(t.rstd),
                      data<T>(t.dx),   t.rows,       t.columns};
  if (a.dx != nullptr) {
    const bool packs = t.columns % kPack<T> == 0 && aligned(a.x, 16) && aligned(a.dx, 16) && aligned(a.grad, 16);
    const auto kernel = packs ? backward<T, kPack<T>, rms> : backward<T, 1, rms>;
    launch(kernel, blocks_for(t.rows, 1), kThreads, 0, context.stream, a);
    check_launch("layer norm's gradient");
  }
  if (t.dweight.data == nullptr && t.dbias.data == nullptr) return;
  const unsigned groups = blocks_for(t.columns, kAcross, INT32_MAX);
  const std::int64_t room = context.partial_bytes / (2 * t.columns * std::int64_t{sizeof(C)});
  if (room == 0) refuse("rows too long for the sums of their columns");
  std::int64_t chunks = 4 * context.multiprocessors / groups;
  const std::int64_t most = (t.rows + kDown - 1) / kDown;
  chunks = chunks < room ? chunks : room;
  chunks = chunks < most ? chunks : most;
  chunks = chunks < 1 ? 1 : chunks;
  const std::int64_t chunk = (t.rows + chunks - 1) / chunks;
  C* partial = static_cast<C*>(context.partials);
  launch(column_sums<T, rms>, dim3(groups, static_cast<unsigned>(chunks)), kThreads, 0, context.stream, a, chunk,
         partial);
  check_launch("the sums of layer norm's columns");
  launch(add_chunks<T>, blocks_for(t.columns, kThreads), kThreads, 0, context.stream, partial, data<T>(t.dweight),
         data<T>(t.dbias), t.columns, static_cast<int>(chunks));
  check_launch("the sums of layer norm's columns");
}

}  // namespace

void layer_norm(const LaunchContext& context, const LayerNormTensors& t, double eps, bool root_mean_square) {
  if (t.rows == 0) return;
  const bool known = for_floating(t.x.dtype, [&](auto type) {
    using T = decltype(type);
    root_mean_square ? run_forward<T, true>(context, t, eps) : run_forward<T, false>(context, t, eps);
  });
  if (!known) refuse("layer norm of integers");
}

void layer_norm_backward(const LaunchContext& context, const LayerNormTensors& t, bool root_mean_square) {
  if (t.rows == 0) return;
  const bool known = for_floating(t.x.dtype, [&](auto type) {
    using T = decltype(type);
    root_mean_square ? run_backward<T, true>(context, t) : run_backward<T, false>(context, t);
  });
  if (!known) refuse("layer norm of integers");
}

}  // namespace gpuplan::cuda
