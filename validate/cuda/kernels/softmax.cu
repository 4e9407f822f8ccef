#include "validate/cuda/kernels/softmax.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/softmax_rows.cuh"

namespace gpuplan::cuda {
namespace {

template <class In, class T, bool log>
__global__ void __launch_bounds__(kSoftmaxThreads)
    forward(const In* x, T* y, Rows rows, bool safe, Offsets<std::uint64_t, 2> offsets) {
  using C = accumulate_t<T>;
  __shared__ C shared[kSoftmaxThreads];
  const int lane = static_cast<int>(threadIdx.x) / rows.across, lanes = kSoftmaxThreads / rows.across;
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
__global__ void __launch_bounds__(kSoftmaxThreads)
    backward(const T* grad, const T* y, Out* dx, Rows rows, Offsets<std::uint64_t, 3> offsets) {
  using C = accumulate_t<T>;
  __shared__ C shared[kSoftmaxThreads];
  const int lane = static_cast<int>(threadIdx.x) / rows.across, lanes = kSoftmaxThreads / rows.across;
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
    p.rows.across = p.rows.length <= 32 ? kSoftmaxThreads : 32;
  else if (p.rows.length <= 256)
    p.rows.across = kSoftmaxThreads / 32;  // a warp to a row
  return p;
}

// The elements that a pack has of every one of these types.
template <class A, class B>
constexpr int kBothPack = kPack<A> < kPack<B> ? kPack<A> : kPack<B>;

// Whether every row is a run of memory that begins at a multiple of a pack of `n`.
bool rows_in_packs(const Plan& p, const KernelTensor* const* tensors, int operands, int n) {
  if (p.rows.length % n != 0) return false;
  for (int k = 0; k < operands; ++k) {
    if (p.rows.steps[k] != 1 || !aligned(tensors[k]->data, static_cast<std::size_t>(n * size_of(tensors[k]->dtype))))
      return false;
    for (int i = 0; i < p.outer.rank; ++i)
      if (p.outer.strides[k][i] % n != 0) return false;
  }
  return true;
}

// How many threads hold a row of which each has `held` elements; 0 where it is too long.
int threads_of(const Plan& p, int held) {
  if (p.rows.length <= std::int64_t{kWarp} * held) return kWarp;
  return p.rows.length <= std::int64_t{kSoftmaxThreads} * held ? kSoftmaxThreads : 0;
}

template <class In, class T, bool log>
bool run_packed(const LaunchContext& context, Plan p, const KernelTensor& x, const KernelTensor& y, bool safe) {
  constexpr int n = kBothPack<In, T>;
  const KernelTensor* tensors[] = {&y, &x};
  const int threads = threads_of(p, kHeld);
  if (threads == 0 || !rows_in_packs(p, tensors, 2, n)) return false;
  p.rows.across = kSoftmaxThreads / threads;
  const auto kernel =
      threads == kWarp ? forward_packed<In, T, n, kWarp, log> : forward_packed<In, T, n, kSoftmaxThreads, log>;
  launch(kernel, blocks_for(p.rows.count, p.rows.across), kSoftmaxThreads, 0, context.stream,
         static_cast<const In*>(x.data), static_cast<T*>(y.data), p.rows, safe, Offsets<std::uint64_t, 2>(p.outer));
  return true;
}

template <class T, class Out, bool log>
bool run_packed_backward(const LaunchContext& context, Plan p, const KernelTensor& grad, const KernelTensor& y,
                         const KernelTensor& dx) {
  constexpr int n = kBothPack<T, Out>;
  const KernelTensor* tensors[] = {&dx, &grad, &y};
  const int threads = threads_of(p, kHeld / 2);
  if (threads == 0 || !rows_in_packs(p, tensors, 3, n)) return false;
  p.rows.across = kSoftmaxThreads / threads;
  const auto kernel =
      threads == kWarp ? backward_packed<T, Out, n, kWarp, log> : backward_packed<T, Out, n, kSoftmaxThreads, log>;
  launch(kernel, blocks_for(p.rows.count, p.rows.across), kSoftmaxThreads, 0, context.stream,
         static_cast<const T*>(grad.data), static_cast<const T*>(y.data), static_cast<Out*>(dx.data), p.rows,
         Offsets<std::uint64_t, 3>(p.outer));
  return true;
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
      if (log ? run_packed<In, T, true>(context, p, x, y, safe) : run_packed<In, T, false>(context, p, x, y, safe))
        return;
      const auto kernel = log ? forward<In, T, true> : forward<In, T, false>;
      launch(kernel, blocks, kSoftmaxThreads, 0, context.stream, static_cast<const In*>(x.data),
             static_cast<T*>(y.data), p.rows, safe, Offsets<std::uint64_t, 2>(p.outer));
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
      if (log ? run_packed_backward<T, Out, true>(context, p, grad, y, dx)
              : run_packed_backward<T, Out, false>(context, p, grad, y, dx))
        return;
      const auto kernel = log ? backward<T, Out, true> : backward<T, Out, false>;
      launch(kernel, blocks, kSoftmaxThreads, 0, context.stream, static_cast<const T*>(grad.data),
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
