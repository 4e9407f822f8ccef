#include "validate/cuda/kernels/dropout.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/executor/random.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlock = 4;  // numbers that one call of the generator gives

// Four elements a thread, in the order of their numbers.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const T* x, std::uint8_t* mask, T* y, Offsets<std::uint64_t, 3> at, bool dense, std::int64_t n,
                   float p, accumulate_t<T> scale, std::uint64_t seed) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t block = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; block * kBlock < n; block += step) {
    const Philox random = philox(seed, static_cast<std::uint64_t>(block));
#pragma unroll
    for (int k = 0; k < kBlock; ++k) {
      const std::int64_t i = block * kBlock + k;
      if (i >= n) return;
      std::int64_t offsets[3] = {i, i, i};
      if (!dense) at(static_cast<std::uint64_t>(i), offsets);
      const bool keeps = static_cast<float>(random.word[k] >> 8) * 0x1p-24F >= p;
      mask[offsets[1]] = keeps ? 1 : 0;
      y[offsets[2]] = narrow<T>(keeps ? widen<C>(x[offsets[0]]) * scale : C(0));
    }
  }
}

/// What a thread of dropout_packs() takes: 16 bytes, or what one call of the generator decides.
template <class T>
constexpr int kTaken = kPack<T> > kBlock ? kPack<T> : kBlock;

// The same of tensors without gaps, whose elements come in packs.
template <class T>
__global__ void __launch_bounds__(kThreads) dropout_packs(const T* x, std::uint8_t* mask, T* y, std::int64_t packs,
                                                          float p, accumulate_t<T> scale, std::uint64_t seed) {
  using C = accumulate_t<T>;
  constexpr int n = kTaken<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Packed<T, n> in = reinterpret_cast<const Packed<T, n>*>(x)[i];
    Packed<std::uint8_t, n> kept;
    Packed<T, n> out;
#pragma unroll
    for (int k = 0; k < n; k += kBlock) {
      const Philox random = philox(seed, static_cast<std::uint64_t>(i * n + k) / kBlock);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) {
        const bool keeps = static_cast<float>(random.word[j] >> 8) * 0x1p-24F >= p;
        kept.values[k + j] = keeps ? 1 : 0;
        out.values[k + j] = narrow<T>(keeps ? widen<C>(in.values[k + j]) * scale : C(0));
      }
    }
    reinterpret_cast<Packed<std::uint8_t, n>*>(mask)[i] = kept;
    reinterpret_cast<Packed<T, n>*>(y)[i] = out;
  }
}

__global__ void __launch_bounds__(kThreads) bernoulli_kernel(void* out, DType type, Offsets<std::uint64_t, 1> at,
                                                             std::int64_t n, float drop, std::uint64_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) {
    std::int64_t offset[1];
    at(static_cast<std::uint64_t>(i), offset);
    const bool one = uniform(seed, static_cast<std::uint64_t>(i)) >= drop;
    store<float>(out, type, offset[0], one ? 1.0F : 0.0F);
  }
}

// Row-major, whatever the strides.
Walked in_order(const KernelTensor& x, const KernelTensor& mask, const KernelTensor& y) {
  Walked w;
  for (int i = y.rank - 1; i >= 0; --i) {
    w.sizes[w.rank] = y.sizes[i];
    w.strides[0][w.rank] = x.strides[i];
    w.strides[1][w.rank] = mask.strides[i];
    w.strides[2][w.rank++] = y.strides[i];
    w.elements *= y.sizes[i];
  }
  return w;
}

}  // namespace

void dropout(const LaunchContext& context, const KernelTensor& x, const KernelTensor& mask, const KernelTensor& y,
             double p, std::uint64_t seed) {
  const Walked w = in_order(x, mask, y);
  if (w.elements == 0) return;
  const bool dense = is_row_major(x) && is_row_major(mask) && is_row_major(y);
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  const bool known = for_floating(y.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kTaken<T>;
    if (dense && w.elements % n == 0 && aligned(x.data, sizeof(T) * n) && aligned(y.data, sizeof(T) * n) &&
        aligned(mask.data, n))
      return launch(dropout_packs<T>, blocks_for(w.elements / n, kThreads), kThreads, 0, context.stream,
                    static_cast<const T*>(x.data), static_cast<std::uint8_t*>(mask.data), static_cast<T*>(y.data),
                    w.elements / n, static_cast<float>(p), static_cast<accumulate_t<T>>(scale), seed);
    launch(dropout_kernel<T>, blocks_for(w.elements, kThreads * kBlock), kThreads, 0, context.stream,
           static_cast<const T*>(x.data), static_cast<std::uint8_t*>(mask.data), static_cast<T*>(y.data),
           Offsets<std::uint64_t, 3>(w), dense, w.elements, static_cast<float>(p), static_cast<accumulate_t<T>>(scale),
           seed);
  });
  if (!known) refuse("dropout of integers");
  check_launch("dropout");
}

void bernoulli(const LaunchContext& context, const KernelTensor& out, double p, std::uint64_t seed) {
  const Walked w = in_order(out, out, out);
  if (w.elements == 0) return;
  launch(bernoulli_kernel, blocks_for(w.elements, kThreads), kThreads, 0, context.stream, out.data, out.dtype,
         Offsets<std::uint64_t, 1>(w), w.elements, static_cast<float>(1 - p), seed);
  check_launch("bernoulli_");
}

}  // namespace gpuplan::cuda
