#include "validate/cuda/kernels/pooling_packed.h"

#include <initializer_list>

#include "validate/cuda/kernels/image.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/kernels/windows.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
using Pack = Packed<T, kPack<T>>;

template <class T>
__device__ __forceinline__ Pack<T> read(const T* from, const Image& m, const Place& p) {
  return *reinterpret_cast<const Pack<T>*>(from + offset(m, p));
}

// The first channel of pack number i.
template <class T>
__device__ __forceinline__ Place place_of_pack(const Image& m, std::int64_t i) {
  Image packs = m;
  packs.c /= kPack<T>;
  Place p = place(packs, i);
  p.c *= kPack<T>;
  return p;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    max_forward(const T* x, Image in, T* y, Image out, std::int64_t* indices, Image at, Window k, std::int64_t packs) {
  using C = accumulate_t<T>;
  constexpr int n = kPack<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Place p = place_of_pack<T>(out, i);
    const std::int64_t top = p.h * k.stride_h - k.pad_h, left = p.w * k.stride_w - k.pad_w;
    C most[n];
    std::int64_t best[n];
#pragma unroll
    for (int c = 0; c < n; ++c) most[c] = -INFINITY, best[c] = -1;
    for (int r = 0; r < k.kernel_h; ++r) {
      const std::int64_t h = top + r * k.dilation_h;
      if (h < 0 || h >= in.h) continue;
      for (int s = 0; s < k.kernel_w; ++s) {
        const std::int64_t w = left + s * k.dilation_w;
        if (w < 0 || w >= in.w) continue;
        const Pack<T> values = read(x, in, {p.n, p.c, h, w});
#pragma unroll
        for (int c = 0; c < n; ++c) {
          const C value = widen<C>(values.values[c]);
          if (best[c] < 0 || value > most[c] || value != value) {
            most[c] = value;
            best[c] = h * in.w + w;
          }
        }
      }
    }
    Pack<T> result;
#pragma unroll
    for (int c = 0; c < n; ++c) result.values[c] = narrow<T>(most[c]);
    *reinterpret_cast<Pack<T>*>(y + offset(out, p)) = result;
    auto* places = reinterpret_cast<Pack<std::int64_t>*>(indices + offset(at, p));
#pragma unroll
    for (int c = 0; c < n; c += 2) places[c / 2] = {best[c], best[c + 1]};
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) max_backward(const T* grad, Image out, const std::int64_t* indices,
                                                         Image at, T* dx, Image in, Window k, std::int64_t packs) {
  using C = accumulate_t<T>;
  constexpr int n = kPack<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Place p = place_of_pack<T>(in, i);
    const std::int64_t me = p.h * in.w + p.w;
    const std::int64_t last_h = end_window(p.h, k.stride_h, k.pad_h, out.h);
    const std::int64_t last_w = end_window(p.w, k.stride_w, k.pad_w, out.w);
    C sums[n] = {};
    for (std::int64_t h = first_window(p.h, k.kernel_h, k.stride_h, k.pad_h, k.dilation_h); h < last_h; ++h)
      for (std::int64_t w = first_window(p.w, k.kernel_w, k.stride_w, k.pad_w, k.dilation_w); w < last_w; ++w) {
        const Pack<T> gradients = read(grad, out, {p.n, p.c, h, w});
        const auto* places = reinterpret_cast<const Pack<std::int64_t>*>(indices + offset(at, {p.n, p.c, h, w}));
#pragma unroll
        for (int c = 0; c < n; c += 2) {
          const Pack<std::int64_t> two = places[c / 2];
          if (two.values[0] == me) sums[c] += widen<C>(gradients.values[c]);
          if (two.values[1] == me) sums[c + 1] += widen<C>(gradients.values[c + 1]);
        }
      }
    Pack<T> result;
#pragma unroll
    for (int c = 0; c < n; ++c) result.values[c] = narrow<T>(sums[c]);
    *reinterpret_cast<Pack<T>*>(dx + offset(in, p)) = result;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) average_forward(const T* x, Image in, T* y, Image out, std::int64_t packs) {
  using C = accumulate_t<T>;
  constexpr int n = kPack<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Place p = place_of_pack<T>(out, i);
    const std::int64_t top = begin_of(p.h, in.h, out.h), bottom = end_of(p.h, in.h, out.h);
    const std::int64_t left = begin_of(p.w, in.w, out.w), right = end_of(p.w, in.w, out.w);
    C sums[n] = {};
    for (std::int64_t h = top; h < bottom; ++h)
#pragma unroll 4
      for (std::int64_t w = left; w < right; ++w) {
        const Pack<T> values = read(x, in, {p.n, p.c, h, w});
#pragma unroll
        for (int c = 0; c < n; ++c) sums[c] += widen<C>(values.values[c]);
      }
    const C taps = static_cast<C>((bottom - top) * (right - left));
    T* result = y + offset(out, p);
#pragma unroll
    for (int c = 0; c < n; ++c) result[c * out.step_c] = narrow<T>(sums[c] / taps);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_backward(const T* grad, Image out, T* dx, Image in, std::int64_t packs) {
  using C = accumulate_t<T>;
  constexpr int n = kPack<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Place p = place_of_pack<T>(in, i);
    C sums[n] = {};
    // Windows that hold this element: the ranges of both bounds are monotonic.
    for (std::int64_t h = p.h * out.h / in.h; h < out.h && begin_of(h, in.h, out.h) <= p.h; ++h) {
      const std::int64_t rows = end_of(h, in.h, out.h) - begin_of(h, in.h, out.h);
      if (end_of(h, in.h, out.h) <= p.h) continue;
      for (std::int64_t w = p.w * out.w / in.w; w < out.w && begin_of(w, in.w, out.w) <= p.w; ++w) {
        const std::int64_t columns = end_of(w, in.w, out.w) - begin_of(w, in.w, out.w);
        if (end_of(w, in.w, out.w) <= p.w) continue;
        const T* gradients = grad + offset(out, {p.n, p.c, h, w});
#pragma unroll
        for (int c = 0; c < n; ++c) sums[c] += widen<C>(gradients[c * out.step_c]) / static_cast<C>(rows * columns);
      }
    }
    Pack<T> result;
#pragma unroll
    for (int c = 0; c < n; ++c) result.values[c] = narrow<T>(sums[c]);
    *reinterpret_cast<Pack<T>*>(dx + offset(in, p)) = result;
  }
}

// Whether each lies with its channels next to each other, in whole packs of `n` at multiples of 16 bytes.
bool in_packs(std::initializer_list<const KernelTensor*> images, int n) {
  for (const KernelTensor* t : images) {
    if (t->rank != 4 || t->strides[1] != 1 || t->sizes[1] % n != 0 || !aligned(t->data, 16)) return false;
    for (const int i : {0, 2, 3})
      if (t->sizes[i] != 1 && t->strides[i] % n != 0) return false;
  }
  return true;
}

template <class F>
bool for_packs(const KernelTensor& of, std::initializer_list<const KernelTensor*> images, F&& f) {
  const int n = 16 / static_cast<int>(size_of(of.dtype));
  if (!is_floating(of.dtype) || !in_packs(images, n)) return false;
  const std::int64_t packs = elements_of(of) / n;
  for_floating(of.dtype, [&](auto type) { f(type, packs, blocks_for(packs, kThreads)); });
  return true;
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

}  // namespace

bool max_pool_packed(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y,
                     const KernelTensor& indices, const Window& window) {
  const bool taken = for_packs(y, {&x, &y, &indices}, [&](auto type, std::int64_t packs, unsigned blocks) {
    using T = decltype(type);
    launch(max_forward<T>, blocks, kThreads, 0, context.stream, data<const T>(x), image(x), data<T>(y), image(y),
           data<std::int64_t>(indices), image(indices), window, packs);
  });
  if (taken) check_launch("max pooling");
  return taken;
}

bool max_pool_backward_packed(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                              const KernelTensor& dx, const Window& window) {
  const bool taken = for_packs(dx, {&grad, &dx, &indices}, [&](auto type, std::int64_t packs, unsigned blocks) {
    using T = decltype(type);
    launch(max_backward<T>, blocks, kThreads, 0, context.stream, data<const T>(grad), image(grad),
           data<const std::int64_t>(indices), image(indices), data<T>(dx), image(dx), window, packs);
  });
  if (taken) check_launch("max pooling's gradient");
  return taken;
}

bool adaptive_average_pool_packed(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y) {
  const bool taken = for_packs(y, {&x}, [&](auto type, std::int64_t packs, unsigned blocks) {
    using T = decltype(type);
    launch(average_forward<T>, blocks, kThreads, 0, context.stream, data<const T>(x), image(x), data<T>(y), image(y),
           packs);
  });
  if (taken) check_launch("average pooling");
  return taken;
}

bool adaptive_average_pool_backward_packed(const LaunchContext& context, const KernelTensor& grad,
                                           const KernelTensor& dx) {
  const bool taken = for_packs(dx, {&dx}, [&](auto type, std::int64_t packs, unsigned blocks) {
    using T = decltype(type);
    launch(average_backward<T>, blocks, kThreads, 0, context.stream, data<const T>(grad), image(grad), data<T>(dx),
           image(dx), packs);
  });
  if (taken) check_launch("average pooling's gradient");
  return taken;
}

}  // namespace gpuplan::cuda
