// Images [N, C, H, W] of any strides, and the order that threads take their elements in.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

struct Image {
  std::int64_t n, c, h, w, step_n, step_c, step_h, step_w;
};

inline Image image(const KernelTensor& t) {
  if (t.rank == 3)  // without a batch
    return {1, t.sizes[0], t.sizes[1], t.sizes[2], 0, t.strides[0], t.strides[1], t.strides[2]};
  if (t.rank != 4) refuse("an operation on a tensor that is not an image");
  return {t.sizes[0], t.sizes[1], t.sizes[2], t.sizes[3], t.strides[0], t.strides[1], t.strides[2], t.strides[3]};
}

struct Place {
  std::int64_t n, c, h, w;
};

template <class Index>
__device__ __forceinline__ Place place_by(const Image& m, Index i) {
  const auto c = static_cast<Index>(m.c), h = static_cast<Index>(m.h), w = static_cast<Index>(m.w);
  if (m.step_c < m.step_w) {
    const Index pixel = i / c, row = pixel / w, image = row / h;
    return {image, i - pixel * c, row - image * h, pixel - row * w};
  }
  const Index row = i / w, plane = row / h, image = plane / c;
  return {image, plane - image * c, row - plane * h, i - row * w};
}

/// Element number i of an image, neighbours in memory being neighbours in number: over channels first where they are
/// the densest. Divisions of 32 bits take a fraction of the time.
__device__ __forceinline__ Place place(const Image& m, std::int64_t i) {
  return i <= INT32_MAX ? place_by(m, static_cast<std::uint32_t>(i)) : place_by(m, i);
}

__device__ __forceinline__ std::int64_t offset(const Image& m, const Place& p) {
  return p.n * m.step_n + p.c * m.step_c + p.h * m.step_h + p.w * m.step_w;
}

}  // namespace gpuplan::cuda
