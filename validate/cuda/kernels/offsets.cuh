// Offsets of an element in several tensors from its number.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {

/// Division of numbers below 2^31 by a constant: a product and a shift (Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication", 1994, figure 4.1).
struct Divisor32 {
  std::uint32_t value = 1, factor = 0, shift = 0;
  static Divisor32 of(std::uint32_t d) {
    Divisor32 r;
    r.value = d;
    while ((std::uint64_t{1} << r.shift) < d) ++r.shift;
    r.factor = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << r.shift) - d)) / d + 1);
    return r;
  }
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t n) const {
    return (__umulhi(n, factor) + n) >> shift;
  }
};

template <class Index, int Operands>
struct Offsets;

template <int Operands>
struct Offsets<std::uint32_t, Operands> {
  int rank = 0;
  Divisor32 sizes[KernelTensor::kMaxRank];
  std::int64_t strides[Operands][KernelTensor::kMaxRank] = {};

  explicit Offsets(const Walked& w) : rank(w.rank) {
    for (int i = 0; i < rank; ++i) {
      sizes[i] = Divisor32::of(static_cast<std::uint32_t>(w.sizes[i]));
      for (int k = 0; k < Operands; ++k) strides[k][i] = w.strides[k][i];
    }
  }
  __device__ __forceinline__ void operator()(std::uint32_t n, std::int64_t (&at)[Operands]) const {
#pragma unroll
    for (int k = 0; k < Operands; ++k) at[k] = 0;
#pragma unroll
    for (int i = 0; i < KernelTensor::kMaxRank; ++i) {
      if (i >= rank) break;
      const std::uint32_t rest = i + 1 == rank ? 0 : sizes[i](n);
      const std::uint32_t here = n - rest * sizes[i].value;
      n = rest;
#pragma unroll
      for (int k = 0; k < Operands; ++k) at[k] += strides[k][i] * here;
    }
  }
};

template <int Operands>
struct Offsets<std::uint64_t, Operands> {
  int rank = 0;
  std::int64_t sizes[KernelTensor::kMaxRank] = {};
  std::int64_t strides[Operands][KernelTensor::kMaxRank] = {};

  explicit Offsets(const Walked& w) : rank(w.rank) {
    for (int i = 0; i < rank; ++i) {
      sizes[i] = w.sizes[i];
      for (int k = 0; k < Operands; ++k) strides[k][i] = w.strides[k][i];
    }
  }
  __device__ __forceinline__ void operator()(std::uint64_t number, std::int64_t (&at)[Operands]) const {
    auto n = static_cast<std::int64_t>(number);
    for (int k = 0; k < Operands; ++k) at[k] = 0;
    for (int i = 0; i < rank; ++i) {
      const std::int64_t rest = i + 1 == rank ? 0 : n / sizes[i];
      const std::int64_t here = n - rest * sizes[i];
      n = rest;
      for (int k = 0; k < Operands; ++k) at[k] += strides[k][i] * here;
    }
  }
};

}  // namespace gpuplan::cuda
