#include "validate/cuda/kernels/pooling.h"

#include "validate/cuda/kernels/image.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/pooling_packed.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/kernels/windows.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) max_forward(const T* x, Image in, T* y, Image out, std::int64_t* indices,
                                                        Image at, Window k, std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(out, i);
    const std::int64_t plane = p.n * in.step_n + p.c * in.step_c;
    const std::int64_t top = p.h * k.stride_h - k.pad_h, left = p.w * k.stride_w - k.pad_w;
    C most = -INFINITY;
    std::int64_t best = -1;
    for (int r = 0; r < k.kernel_h; ++r) {
      const std::int64_t h = top + r * k.dilation_h;
      if (h < 0 || h >= in.h) continue;
      for (int s = 0; s < k.kernel_w; ++s) {
        const std::int64_t w = left + s * k.dilation_w;
        if (w < 0 || w >= in.w) continue;
        const C value = widen<C>(x[plane + h * in.step_h + w * in.step_w]);
        if (best < 0 || value > most || value != value) {
          most = value;
          best = h * in.w + w;
        }
      }
    }
    y[offset(out, p)] = narrow<T>(most);
    indices[offset(at, p)] = best;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) max_backward(const T* grad, Image out, const std::int64_t* indices,
                                                         Image at, T* dx, Image in, Window k, std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(in, i);
    const std::int64_t me = p.h * in.w + p.w;
    const std::int64_t last_h = end_window(p.h, k.stride_h, k.pad_h, out.h);
    const std::int64_t last_w = end_window(p.w, k.stride_w, k.pad_w, out.w);
    C sum = 0;
    for (std::int64_t h = first_window(p.h, k.kernel_h, k.stride_h, k.pad_h, k.dilation_h); h < last_h; ++h) {
      for (std::int64_t w = first_window(p.w, k.kernel_w, k.stride_w, k.pad_w, k.dilation_w); w < last_w; ++w) {
        const Place q{p.n, p.c, h, w};
        if (indices[offset(at, q)] == me) sum += widen<C>(grad[offset(out, q)]);
      }
    }
    dx[offset(in, p)] = narrow<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_forward(const T* x, Image in, T* y, Image out, std::int64_t elements) {
  using C = accumulate_t<T>;
  constexpr int kWarp = 32;
  // A warp to a window: the whole image, mostly.
  const std::int64_t step = std::int64_t{gridDim.x} * (kThreads / kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t i = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp; i < elements; i += step) {
    const Place p = place(out, i);
    const std::int64_t top = begin_of(p.h, in.h, out.h), bottom = end_of(p.h, in.h, out.h);
    const std::int64_t left = begin_of(p.w, in.w, out.w), width = end_of(p.w, in.w, out.w) - left;
    const std::int64_t taps = (bottom - top) * width;
    C sum = 0;
    for (std::int64_t k = lane; k < taps; k += kWarp) {
      const Place q{p.n, p.c, top + k / width, left + k % width};
      sum += widen<C>(x[offset(in, q)]);
    }
#pragma unroll
    for (int half = kWarp / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, half);
    if (lane == 0) y[offset(out, p)] = narrow<T>(sum / static_cast<C>(taps));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_backward(const T* grad, Image out, T* dx, Image in, std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(in, i);
    C sum = 0;
    // Windows that hold this element: the ranges of both bounds are monotonic.
    for (std::int64_t h = p.h * out.h / in.h; h < out.h && begin_of(h, in.h, out.h) <= p.h; ++h) {
      const std::int64_t rows = end_of(h, in.h, out.h) - begin_of(h, in.h, out.h);
      if (end_of(h, in.h, out.h) <= p.h) continue;
      for (std::int64_t w = p.w * out.w / in.w; w < out.w && begin_of(w, in.w, out.w) <= p.w; ++w) {
        const std::int64_t columns = end_of(w, in.w, out.w) - begin_of(w, in.w, out.w);
        if (end_of(w, in.w, out.w) <= p.w) continue;
        sum += widen<C>(grad[offset(out, {p.n, p.c, h, w})]) / static_cast<C>(rows * columns);
      }
    }
    dx[offset(in, p)] = narrow<T>(sum);
  }
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

}  // namespace

void max_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const KernelTensor& indices,
              const Window& window) {
  const std::int64_t n = elements_of(y);
  if (n == 0 || max_pool_packed(context, x, y, indices, window)) return;
  const bool known = for_floating(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch(max_forward<T>, blocks_for(n, kThreads), kThreads, 0, context.stream, data<const T>(x), image(x), data<T>(y),
           image(y), data<std::int64_t>(indices), image(indices), window, n);
  });
  if (!known) refuse("pooling of integers");
  check_launch("max pooling");
}

void max_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                       const KernelTensor& dx, const Window& window) {
  const std::int64_t n = elements_of(dx);
  if (n == 0 || max_pool_backward_packed(context, grad, indices, dx, window)) return;
  const bool known = for_floating(dx.dtype, [&](auto type) {
    using T = decltype(type);
    launch(max_backward<T>, blocks_for(n, kThreads), kThreads, 0, context.stream, data<const T>(grad), image(grad),
           data<const std::int64_t>(indices), image(indices), data<T>(dx), image(dx), window, n);
  });
  if (!known) refuse("pooling of integers");
  check_launch("max pooling's gradient");
}

void adaptive_average_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y) {
  const std::int64_t n = elements_of(y);
  if (n == 0 || adaptive_average_pool_packed(context, x, y)) return;
  const bool known = for_floating(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch(average_forward<T>, blocks_for(n, kThreads / 32), kThreads, 0, context.stream, data<const T>(x), image(x),
           data<T>(y), image(y), n);
  });
  if (!known) refuse("pooling of integers");
  check_launch("average pooling");
}

void adaptive_average_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx) {
  const std::int64_t n = elements_of(dx);
  if (n == 0 || adaptive_average_pool_backward_packed(context, grad, dx)) return;
  const bool known = for_floating(dx.dtype, [&](auto type) {
    using T = decltype(type);
    launch(average_backward<T>, blocks_for(n, kThreads), kThreads, 0, context.stream, data<const T>(grad), image(grad),
           data<T>(dx), image(dx), n);
  });
  if (!known) refuse("pooling of integers");
  check_launch("average pooling's gradient");
}

}  // namespace gpuplan::cuda
