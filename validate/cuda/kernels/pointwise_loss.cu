// As PyTorch's kernels write them (aten/src/ATen/native/cuda/BinaryMiscOpsKernels.cu, native/Loss.cpp).
#include "validate/cuda/kernels/pointwise_loss.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

template <class C>
__device__ __forceinline__ C value(PointwiseLoss kind, C x, C t, C bend) {
  const C z = x - t, size = z < C(0) ? -z : z;
  switch (kind) {
    case PointwiseLoss::squares: return z * z;
    case PointwiseLoss::smooth_l1: return size < bend ? C(0.5) * size * size / bend : size - C(0.5) * bend;
    case PointwiseLoss::huber: return size < bend ? C(0.5) * size * size : bend * (size - C(0.5) * bend);
    case PointwiseLoss::cross_entropy: return (C(1) - t) * x + log1p(exp(x < C(0) ? x : -x)) + (x < C(0) ? -x : C(0));
  }
  return C(0);
}

template <class C>
__device__ __forceinline__ C slope(PointwiseLoss kind, C x, C t, C bend) {
  const C z = x - t;
  switch (kind) {
    case PointwiseLoss::squares: return C(2) * z;
    case PointwiseLoss::smooth_l1: return z <= -bend ? C(-1) : z >= bend ? C(1) : z / bend;
    case PointwiseLoss::huber: return z <= -bend ? -bend : z >= bend ? bend : z;
    case PointwiseLoss::cross_entropy: return C(1) / (C(1) + exp(-x)) - t;
  }
  return C(0);
}

// `n` elements at a time; the last ones, which fill no pack, one by one.
template <class T, int n>
__global__ void __launch_bounds__(kThreads) sums(PointwiseLoss kind, const T* x, const T* target, std::int64_t elements,
                                                 accumulate_t<T> bend, accumulate_t<T>* partial) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, packs = elements / n;
  C sum = 0;
  for (std::int64_t i = first; i < packs; i += step) {
    const Packed<T, n> a = reinterpret_cast<const Packed<T, n>*>(x)[i];
    const Packed<T, n> b = reinterpret_cast<const Packed<T, n>*>(target)[i];
#pragma unroll
    for (int k = 0; k < n; ++k) sum += value(kind, widen<C>(a.values[k]), widen<C>(b.values[k]), bend);
  }
  const std::int64_t last = packs * n + first;
  if (last < elements) sum += value(kind, widen<C>(x[last]), widen<C>(target[last]), bend);
  sum = over_block<kThreads>(sum, shared, Add{});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_sums(const accumulate_t<T>* partial, int count, T* loss, accumulate_t<T> scale) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  C sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += partial[i];
  sum = over_block<kThreads>(sum, shared, Add{});
  if (threadIdx.x == 0) *loss = narrow<T>(sum * scale);
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    slopes(PointwiseLoss kind, const T* grad, const T* x, const T* target, T* dx, std::int64_t elements,
           accumulate_t<T> bend, accumulate_t<T> scale) {
  using C = accumulate_t<T>;
  const C factor = widen<C>(*grad) * scale;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, packs = elements / n;
  for (std::int64_t i = first; i < packs; i += step) {
    const Packed<T, n> a = reinterpret_cast<const Packed<T, n>*>(x)[i];
    const Packed<T, n> b = reinterpret_cast<const Packed<T, n>*>(target)[i];
    Packed<T, n> out;
#pragma unroll
    for (int k = 0; k < n; ++k)
      out.values[k] = narrow<T>(factor * slope(kind, widen<C>(a.values[k]), widen<C>(b.values[k]), bend));
    reinterpret_cast<Packed<T, n>*>(dx)[i] = out;
  }
  const std::int64_t last = packs * n + first;
  if (last < elements) dx[last] = narrow<T>(factor * slope(kind, widen<C>(x[last]), widen<C>(target[last]), bend));
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

}  // namespace

void pointwise_loss(const LaunchContext& context, const LossArguments& a, const KernelTensor& x,
                    const KernelTensor& target, const KernelTensor& loss) {
  const std::int64_t n = elements_of(x);
  const unsigned blocks = blocks_for(n, kThreads * 8, context.multiprocessors * 8);
  const bool known = for_floating(x.dtype, [&](auto type) {
    using T = decltype(type);
    using C = accumulate_t<T>;
    C* partial = static_cast<C*>(context.partials);
    const auto kernel = aligned(x.data, 16) && aligned(target.data, 16) ? sums<T, kPack<T>> : sums<T, 1>;
    launch(kernel, blocks, kThreads, 0, context.stream, a.kind, data<T>(x), data<T>(target), n, static_cast<C>(a.bend),
           partial);
    check_launch("a pointwise loss");
    launch(add_sums<T>, 1, kThreads, 0, context.stream, partial, static_cast<int>(blocks), data<T>(loss),
           a.mean ? C(1) / static_cast<C>(n) : C(1));
  });
  if (!known) refuse("a loss of integers");
  check_launch("a pointwise loss");
}

void pointwise_loss_backward(const LaunchContext& context, const LossArguments& a, const KernelTensor& grad,
                             const KernelTensor& x, const KernelTensor& target, const KernelTensor& dx) {
  const std::int64_t n = elements_of(x);
  if (n == 0) return;
  const bool known = for_floating(x.dtype, [&](auto type) {
    using T = decltype(type);
    using C = accumulate_t<T>;
    const bool packs = aligned(x.data, 16) && aligned(target.data, 16) && aligned(dx.data, 16);
    const auto kernel = packs ? slopes<T, kPack<T>> : slopes<T, 1>;
    launch(kernel, blocks_for(n, kThreads * kPack<T>, context.multiprocessors * 16), kThreads, 0, context.stream,
           a.kind, data<T>(grad), data<T>(x), data<T>(target), data<T>(dx), n, static_cast<C>(a.bend),
           a.mean ? C(1) / static_cast<C>(n) : C(1));
  });
  if (!known) refuse("a loss of integers");
  check_launch("a pointwise loss's gradient");
}

}  // namespace gpuplan::cuda
