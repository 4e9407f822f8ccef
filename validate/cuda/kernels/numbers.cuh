// Reading and writing elements of any storage type, and the type that kernels compute in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "estimator/base/dtype.h"

namespace gpuplan::cuda {

/// fp64, and integers up to 2^53, are computed in double; everything else in float.
inline bool wants_double(DType t) { return t == DType::fp64 || t == DType::int64 || t == DType::int32; }

template <class C>
__device__ __forceinline__ C widen(float x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(double x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(__half x) {
  return static_cast<C>(__half2float(x));
}
template <class C>
__device__ __forceinline__ C widen(__nv_bfloat16 x) {
  return static_cast<C>(__bfloat162float(x));
}
template <class C>
__device__ __forceinline__ C widen(std::int64_t x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(std::int32_t x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(std::uint8_t x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(std::int8_t x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C widen(bool x) {
  return x ? C(1) : C(0);
}

/// Rounds to T as a cast does.
template <class T, class C>
__device__ __forceinline__ T narrow(C x) {
  return static_cast<T>(x);
}
template <>
__device__ __forceinline__ __half narrow<__half, float>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __half narrow<__half, double>(double x) {
  return __double2half(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16, float>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16, double>(double x) {
  return __double2bfloat16(x);
}
template <>
__device__ __forceinline__ bool narrow<bool, float>(float x) {
  return x != 0.0F;
}
template <>
__device__ __forceinline__ bool narrow<bool, double>(double x) {
  return x != 0.0;
}

/// Element i of an array whose type is known when the kernel runs.
template <class C>
__device__ __forceinline__ C load(const void* data, DType type, std::int64_t i) {
  switch (type) {
    case DType::fp32: return widen<C>(static_cast<const float*>(data)[i]);
    case DType::fp64: return widen<C>(static_cast<const double*>(data)[i]);
    case DType::fp16: return widen<C>(static_cast<const __half*>(data)[i]);
    case DType::bf16: return widen<C>(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::int64: return widen<C>(static_cast<const std::int64_t*>(data)[i]);
    case DType::int32: return widen<C>(static_cast<const std::int32_t*>(data)[i]);
    case DType::uint8: return widen<C>(static_cast<const std::uint8_t*>(data)[i]);
    case DType::int8: return widen<C>(static_cast<const std::int8_t*>(data)[i]);
    case DType::boolean: return static_cast<const std::uint8_t*>(data)[i] != 0 ? C(1) : C(0);
  }
  return C(0);
}

template <class C>
__device__ __forceinline__ void store(void* data, DType type, std::int64_t i, C x) {
  switch (type) {
    case DType::fp32: static_cast<float*>(data)[i] = narrow<float>(x); break;
    case DType::fp64: static_cast<double*>(data)[i] = narrow<double>(x); break;
    case DType::fp16: static_cast<__half*>(data)[i] = narrow<__half>(x); break;
    case DType::bf16: static_cast<__nv_bfloat16*>(data)[i] = narrow<__nv_bfloat16>(x); break;
    case DType::int64: static_cast<std::int64_t*>(data)[i] = narrow<std::int64_t>(x); break;
    case DType::int32: static_cast<std::int32_t*>(data)[i] = narrow<std::int32_t>(x); break;
    case DType::uint8: static_cast<std::uint8_t*>(data)[i] = narrow<std::uint8_t>(x); break;
    case DType::int8: static_cast<std::int8_t*>(data)[i] = narrow<std::int8_t>(x); break;
    case DType::boolean: static_cast<bool*>(data)[i] = x != C(0); break;
  }
}

/// Calls f with a value of the type that `type` stores, for floating-point types; false for others.
template <class F>
bool for_floating(DType type, F&& f) {
  switch (type) {
    case DType::fp32: f(float{}); return true;
    case DType::fp64: f(double{}); return true;
    case DType::fp16: f(__half{}); return true;
    case DType::bf16: f(__nv_bfloat16{}); return true;
    default: return false;
  }
}

/// The type that sums of T are kept in.
template <class T>
struct Accumulate {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};
template <class T>
using accumulate_t = typename Accumulate<T>::type;

}  // namespace gpuplan::cuda
