// As PyTorch's kernels place windows and sources (aten/src/ATen/native/cuda/AveragePool2d.cu, UpSample.cuh).
#include "validate/cuda/kernels/resample.h"

#include "validate/cuda/kernels/image.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// A window in one dimension: [begin, end) within the image, and its size with the padding that lies in it.
struct Span {
  std::int64_t begin, end, padded;
};
__device__ __forceinline__ Span span(std::int64_t at, std::int64_t size, int kernel, int stride, int pad) {
  const std::int64_t begin = at * stride - pad;
  const std::int64_t end = begin + kernel < size + pad ? begin + kernel : size + pad;
  return {begin < 0 ? 0 : begin, end < size ? end : size, end - begin};
}

template <class C>
__device__ __forceinline__ C share(const Averaging& a, const Span& h, const Span& w) {
  if (a.divisor != 0) return C(1) / static_cast<C>(a.divisor);
  const std::int64_t count = a.counts_padding ? h.padded * w.padded : (h.end - h.begin) * (w.end - w.begin);
  return C(1) / static_cast<C>(count);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_forward(const T* x, Image in, T* y, Image out, Averaging a, std::int64_t elements) {
  using C = accumulate_t<T>;
  const Window& k = a.window;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(out, i);
    const Span h = span(p.h, in.h, k.kernel_h, k.stride_h, k.pad_h),
               w = span(p.w, in.w, k.kernel_w, k.stride_w, k.pad_w);
    const T* plane = x + p.n * in.step_n + p.c * in.step_c;
    C sum = 0;
    for (std::int64_t r = h.begin; r < h.end; ++r)
      for (std::int64_t s = w.begin; s < w.end; ++s) sum += widen<C>(plane[r * in.step_h + s * in.step_w]);
    y[offset(out, p)] = narrow<T>(sum * share<C>(a, h, w));
  }
}

// The first window that reaches an element, and one past the last.
__device__ __forceinline__ std::int64_t first_window(std::int64_t at, int kernel, int stride, int pad) {
  const std::int64_t reach = at + pad - (kernel - 1);
  return reach <= 0 ? 0 : (reach + stride - 1) / stride;
}
__device__ __forceinline__ std::int64_t end_window(std::int64_t at, int stride, int pad, std::int64_t windows) {
  const std::int64_t end = (at + pad) / stride + 1;
  return end < windows ? end : windows;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_backward(const T* grad, Image out, T* dx, Image in, Averaging a, std::int64_t elements) {
  using C = accumulate_t<T>;
  const Window& k = a.window;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(in, i);
    const std::int64_t end_h = end_window(p.h, k.stride_h, k.pad_h, out.h);
    const std::int64_t end_w = end_window(p.w, k.stride_w, k.pad_w, out.w);
    C sum = 0;
    for (std::int64_t r = first_window(p.h, k.kernel_h, k.stride_h, k.pad_h); r < end_h; ++r)
      for (std::int64_t s = first_window(p.w, k.kernel_w, k.stride_w, k.pad_w); s < end_w; ++s) {
        const Span h = span(r, in.h, k.kernel_h, k.stride_h, k.pad_h),
                   w = span(s, in.w, k.kernel_w, k.stride_w, k.pad_w);
        sum += widen<C>(grad[offset(out, {p.n, p.c, r, s})]) * share<C>(a, h, w);
      }
    dx[offset(in, p)] = narrow<T>(sum);
  }
}

// Two elements of the image, and how far the second one is taken; of nearest resampling one.
template <class C>
struct Between {
  std::int64_t first, second;
  C rest;
};
template <class C>
__device__ __forceinline__ Between<C> between(const Resampling& r, double step, std::int64_t at, std::int64_t size) {
  if (!r.bilinear) {
    const auto source = static_cast<std::int64_t>(floorf(static_cast<float>(at) * static_cast<float>(step)));
    const std::int64_t first = source < size - 1 ? source : size - 1;
    return {first, first, C(0)};
  }
  const C scale = static_cast<C>(step), number = static_cast<C>(at);
  C source = r.corners ? number * scale : (number + C(0.5)) * scale - C(0.5);
  source = source < C(0) ? C(0) : source;
  const auto below = static_cast<std::int64_t>(source);
  const std::int64_t first = below < size - 1 ? below : size - 1;
  const C rest = source - static_cast<C>(first);
  return {first, first + 1 < size ? first + 1 : first, rest < C(1) ? rest : C(1)};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resample_forward(const T* x, Image in, T* y, Image out, Resampling how, std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(out, i);
    const Between<C> h = between<C>(how, how.step_h, p.h, in.h), w = between<C>(how, how.step_w, p.w, in.w);
    const T* plane = x + p.n * in.step_n + p.c * in.step_c;
    const auto at = [&](std::int64_t r, std::int64_t s) { return widen<C>(plane[r * in.step_h + s * in.step_w]); };
    if (!how.bilinear) {
      y[offset(out, p)] = narrow<T>(at(h.first, w.first));
      continue;
    }
    const C top = (C(1) - w.rest) * at(h.first, w.first) + w.rest * at(h.first, w.second);
    const C bottom = (C(1) - w.rest) * at(h.second, w.first) + w.rest * at(h.second, w.second);
    y[offset(out, p)] = narrow<T>((C(1) - h.rest) * top + h.rest * bottom);
  }
}

// Where results begin to be made of element `at`: sources grow with the number of the result. A little before, for
// rounding; every candidate is asked.
__device__ __forceinline__ std::int64_t first_result(std::int64_t at, double step) {
  if (step <= 0 || at < 2) return 0;
  const auto first = static_cast<std::int64_t>(static_cast<float>(at - 1) / static_cast<float>(step)) - 2;
  return first < 0 ? 0 : first;
}

template <class C>
__device__ __forceinline__ C weight_of(const Between<C>& b, std::int64_t at) {
  return (b.first == at ? C(1) - b.rest : C(0)) + (b.second == at ? b.rest : C(0));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resample_gradient(const T* grad, Image out, T* dx, Image in, Resampling how, std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Place p = place(in, i);
    const T* plane = grad + p.n * out.step_n + p.c * out.step_c;
    const std::int64_t first_w = first_result(p.w, how.step_w);
    C sum = 0;
    for (std::int64_t r = first_result(p.h, how.step_h); r < out.h; ++r) {
      const Between<C> h = between<C>(how, how.step_h, r, in.h);
      if (h.first > p.h) break;
      const C of_row = weight_of(h, p.h);
      if (of_row == C(0)) continue;
      for (std::int64_t s = first_w; s < out.w; ++s) {
        const Between<C> w = between<C>(how, how.step_w, s, in.w);
        if (w.first > p.w) break;
        const C weight = of_row * weight_of(w, p.w);
        if (weight != C(0)) sum += weight * widen<C>(plane[r * out.step_h + s * out.step_w]);
      }
    }
    dx[offset(in, p)] = narrow<T>(sum);
  }
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

// A thread to an element of `to`.
template <class F>
void for_elements(const KernelTensor& from, const KernelTensor& to, const char* what, F&& f) {
  const std::int64_t n = elements_of(to);
  if (n == 0) return;
  if (from.dtype != to.dtype || !for_floating(to.dtype, [&](auto type) { f(type, blocks_for(n, kThreads), n); }))
    refuse("an image of integers");
  check_launch(what);
}

}  // namespace

void average_pool(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const Averaging& how) {
  for_elements(x, y, "average pooling", [&](auto type, unsigned blocks, std::int64_t n) {
    using T = decltype(type);
    launch(average_forward<T>, blocks, kThreads, 0, context.stream, data<const T>(x), image(x), data<T>(y), image(y),
           how, n);
  });
}

void average_pool_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx,
                           const Averaging& how) {
  for_elements(grad, dx, "average pooling's gradient", [&](auto type, unsigned blocks, std::int64_t n) {
    using T = decltype(type);
    launch(average_backward<T>, blocks, kThreads, 0, context.stream, data<const T>(grad), image(grad), data<T>(dx),
           image(dx), how, n);
  });
}

void resample(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, const Resampling& how) {
  for_elements(x, y, "resampling", [&](auto type, unsigned blocks, std::int64_t n) {
    using T = decltype(type);
    launch(resample_forward<T>, blocks, kThreads, 0, context.stream, data<const T>(x), image(x), data<T>(y), image(y),
           how, n);
  });
}

void resample_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& dx,
                       const Resampling& how) {
  for_elements(grad, dx, "resampling's gradient", [&](auto type, unsigned blocks, std::int64_t n) {
    using T = decltype(type);
    launch(resample_gradient<T>, blocks, kThreads, 0, context.stream, data<const T>(grad), image(grad), data<T>(dx),
           image(dx), how, n);
  });
}

}  // namespace gpuplan::cuda
