// CUDA's words for a C++ compiler: read before each .cu file that is compiled as C++ (-include), so that the very same
// sources run on the processor. Threads are fibers of one thread (threads.h); what kernels call is here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <math.h>  // NOLINT(modernize-deprecated-headers): kernels call exp and the like without std

#include <cstdint>

#include "tests/cuda/emulation/matrix_fragments.h"
#include "tests/cuda/emulation/warp.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
// The threads of a block are fibers of one thread, and blocks come one after another. threads.cpp finds all of a
// library's variables of a thread, and poisons them before each block.
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__

/// Of the thread that runs. uint3 and dim3 are the CUDA headers'.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

constexpr int warpSize = 32;

inline void __syncthreads(gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  gpuplan::emulation::wait_for_block(where);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU,
                       gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  (void)gpuplan::emulation::vote(mask, false, where);
}
inline unsigned __ballot_sync(unsigned mask, int yes,
                              gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  return gpuplan::emulation::vote(mask, yes != 0, where);
}
inline int __any_sync(unsigned mask, int yes, gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  return gpuplan::emulation::vote(mask, yes != 0, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int yes, gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  return gpuplan::emulation::vote(mask, yes != 0, where) == mask ? 1 : 0;
}

// `width` divides a warp into parts whose lanes count from 0 ("CUDA C++ Programming Guide", warp shuffle functions).
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  const int first = gpuplan::emulation::lane() / width * width;
  return gpuplan::emulation::shuffled(mask, value, first + source % width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  const int me = gpuplan::emulation::lane(), other = me ^ lanes;
  return gpuplan::emulation::shuffled(mask, value, other / width > me / width ? me : other, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int lanes, int width = warpSize,
                   gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  const int me = gpuplan::emulation::lane(), other = me + lanes;
  return gpuplan::emulation::shuffled(mask, value, other / width > me / width ? me : other, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int lanes, int width = warpSize,
                 gpuplan::emulation::Place where = {__builtin_FILE(), __builtin_LINE()}) {
  const int me = gpuplan::emulation::lane(), other = me - lanes;
  return gpuplan::emulation::shuffled(mask, value, other < me / width * width ? me : other, where);
}

// A fiber runs until it waits: nothing comes between.
template <class T, class U>
T atomicAdd(T* to, U value) {
  const T before = *to;
  *to = before + static_cast<T>(value);
  return before;
}
template <class T, class U>
T atomicMax(T* to, U value) {
  const T before = *to;
  if (static_cast<T>(value) > before) *to = static_cast<T>(value);
  return before;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline float rsqrtf(float x) { return 1.0F / sqrtf(x); }
inline float rsqrt(float x) { return 1.0F / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }

/// cuda_runtime.h has it for nvcc only.
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
