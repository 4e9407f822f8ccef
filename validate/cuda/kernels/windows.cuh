// Which windows of a pooling an element is in, and which elements are in a window.
#pragma once

#include <cstdint>

namespace gpuplan::cuda {

/// The first window that reaches `at`, and one past the last.
__device__ __forceinline__ std::int64_t first_window(std::int64_t at, int kernel, int stride, int pad, int dilation) {
  const std::int64_t reach = at + pad - std::int64_t{kernel - 1} * dilation;
  return reach <= 0 ? 0 : (reach + stride - 1) / stride;
}
__device__ __forceinline__ std::int64_t end_window(std::int64_t at, int stride, int pad, std::int64_t windows) {
  const std::int64_t end = (at + pad) / stride + 1;
  return end < windows ? end : windows;
}

/// Window i of `out` that share `in` elements, adaptively.
__device__ __forceinline__ std::int64_t begin_of(std::int64_t i, std::int64_t in, std::int64_t out) {
  return i * in / out;
}
__device__ __forceinline__ std::int64_t end_of(std::int64_t i, std::int64_t in, std::int64_t out) {
  return ((i + 1) * in + out - 1) / out;
}

}  // namespace gpuplan::cuda
