#include "validate/cuda/kernels/softmax.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

struct Rows {
  std::int64_t count = 0, length = 0;
  std::int64_t steps[3] = {};  // along a row, by operand
  int across = 1;              // threads of a block on neighbouring rows; the others share a row
};

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }

template <class In, class T, bool log>
__global__ void __launch_bounds__(kThreads)
    forward(const In* x, T* y, Rows rows, bool safe, Offsets<std::uint64_t, 2> offsets) {
  using C = accumulate_t<T>;
  __shared__ C shared[kThreads];
  const int lane = static_cast<int>(threadIdx.x) / rows.across, lanes = kThreads / rows.across;
  for (std::int64_t group = blockIdx.x; group * rows.across < rows.count; group += gridDim.x) {
    const std::int64_t row = group * rows.across + static_cast<int>(threadIdx.x) % rows.across;
    const bool there = row < rows.count;
    std::int64_t at[2] = {};
    if (there) offsets(static_cast<std::uint64_t>(row), at);
    const std::int64_t end = there ? rows.length : 0;
    C most = -INFINITY;
    for (std::int64_t i = lane; i < end; i += lanes) {
      const C v = widen<C>(x[at[1] + i * rows.steps[1]]);
      most = v > most || v != v ? v : most;  // a NaN stays one
    }
    most = over_threads(most, shared, lanes, rows.across, Most{});
    if (most == -INFINITY) most = C(0);  // exp(-inf) is 0, exp(-inf + inf) no number
    C sum = 0;
    for (std::int64_t i = lane; i < end; i += lanes) sum += exponential(widen<C>(x[at[1] + i * rows.steps[1]]) - most);
    sum = over_threads(sum, shared, lanes, rows.across, Add{});
    const C logarithm_of_sum = logarithm(sum);
    for (std::int64_t i = lane; i < end; i += lanes) {
      const C v = widen<C>(x[at[1] + i * rows.steps[1]]) - most;
      y[at[0] + i * rows.steps[0]] = narrow<T>(log                   ? v - logarithm_of_sum
                                               : safe && sum == C(0) ? C(0)
                                                                     : exponential(v) / sum);
    }
  }
}

template <class T, class Out, bool log>
__global__ void __launch_bounds__(kThreads)
    backward(const T* grad, const T* y, Out* dx, Rows rows, Offsets<std::uint64_t, 3> offsets) {
  using C = accumulate_t<T>;
  __shared__ C shared[kThreads];
  const int lane = static_cast<int>(threadIdx.x) / rows.across, lanes = kThreads / rows.across;
  for (std::int64_t group = blockIdx.x; group * rows.across < rows.count; group += gridDim.x) {
    const std::int64_t row = group * rows.across + static_cast<int>(threadIdx.x) % rows.across;
    const bool there = row < rows.count;
    std::int64_t at[3] = {};
    if (there) offsets(static_cast<std::uint64_t>(row), at);
    const std::int64_t end = there ? rows.length : 0;
    C sum = 0;
    for (std::int64_t i = lane; i < end; i += lanes) {
      const C g = widen<C>(grad[at[1] + i * rows.steps[1]]);
      sum += log ? g : g * widen<C>(y[at[2] + i * rows.steps[2]]);
    }
    sum = over_threads(sum, shared, lanes, rows.across, Add{});
    for (std::int64_t i = lane; i < end; i += lanes) {
      const C g = widen<C>(grad[at[1] + i * rows.steps[1]]), v = widen<C>(y[at[2] + i * rows.steps[2]]);
      dx[at[0] + i * rows.steps[0]] = narrow<Out>(log ? g - exponential(v) * sum : v * (g - sum));
    }
  }
}

struct Plan {
  Rows rows;
  Walked outer;
};

// Rows over the other dimensions. The first operand is the result.
Plan plan(const KernelTensor* const* tensors, int operands, int dimension) {
  const KernelTensor& out = *tensors[0];
  std::int64_t sizes[KernelTensor::kMaxRank], steps[3][KernelTensor::kMaxRank];
  Plan p;
  int rank = 0;
  for (int i = 0; i < out.rank; ++i) {
    if (i == dimension) continue;
    sizes[rank] = out.sizes[i];
    for (int k = 0; k < operands; ++k) steps[k][rank] = tensors[k]->strides[i];
    ++rank;
  }
  const std::int64_t* strides[] = {steps[0], steps[1], steps[2]};
  p.outer = walked(rank, sizes, strides, operands);
  p.rows.count = p.outer.elements;
  p.rows.length = out.rank == 0 ? 1 : out.sizes[dimension];
  for (int k = 0; k < operands; ++k) p.rows.steps[k] = out.rank == 0 ? 1 : tensors[k]->strides[dimension];
  const bool rows_are_neighbours = p.rows.steps[0] != 1 && p.outer.rank > 0 && p.outer.strides[0][0] == 1;
  if (rows_are_neighbours)
    p.rows.across = p.rows.length <= 32 ? kThreads : 32;
  else if (p.rows.length <= 256)
    p.rows.across = kThreads / 32;  // a warp to a row
  return p;
}

}  // namespace

void softmax(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, int dimension, bool log,
             bool safe) {
  const KernelTensor* tensors[] = {&y, &x};
  const Plan p = plan(tensors, 2, dimension);
  if (p.rows.count * p.rows.length == 0) return;
  const unsigned blocks = blocks_for(p.rows.count, p.rows.across);
  const bool known = for_floating(y.dtype, [&](auto type) {
    using T = decltype(type);
    const auto run = [&](auto source) {
      using In = decltype(source);
      const auto kernel = log ? forward<In, T, true> : forward<In, T, false>;
      launch(kernel, blocks, kThreads, 0, context.stream, static_cast<const In*>(x.data), static_cast<T*>(y.data),
             p.rows, safe, Offsets<std::uint64_t, 2>(p.outer));
    };
    if (x.dtype == y.dtype) return run(T{});
    if (x.dtype == DType::fp16 && y.dtype == DType::fp32) return run(__half{});
    refuse("softmax from one type to another");
  });
  if (!known) refuse("softmax of integers");
  check_launch("softmax");
}

void softmax_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& y,
                      const KernelTensor& dx, int dimension, bool log) {
  const KernelTensor* tensors[] = {&dx, &grad, &y};
  const Plan p = plan(tensors, 3, dimension);
  if (p.rows.count * p.rows.length == 0) return;
  const unsigned blocks = blocks_for(p.rows.count, p.rows.across);
  const bool known = for_floating(y.dtype, [&](auto type) {
    using T = decltype(type);
    const auto run = [&](auto target) {
      using Out = decltype(target);
      const auto kernel = log ? backward<T, Out, true> : backward<T, Out, false>;
      launch(kernel, blocks, kThreads, 0, context.stream, static_cast<const T*>(grad.data),
             static_cast<const T*>(y.data), static_cast<Out*>(dx.data), p.rows, Offsets<std::uint64_t, 3>(p.outer));
    };
    if (grad.dtype != y.dtype) refuse("a gradient of another type than the result");
    if (dx.dtype == y.dtype) return run(T{});
    if (dx.dtype == DType::fp16 && y.dtype == DType::fp32) return run(__half{});
    refuse("softmax's gradient from one type to another");
  });
  if (!known) refuse("softmax of integers");
  check_launch("softmax's gradient");
}

}  // namespace gpuplan::cuda
