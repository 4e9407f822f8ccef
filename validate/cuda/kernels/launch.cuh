// How a kernel is launched and finds its dynamic shared memory. Only here is what no C++ compiler reads: the .cu files
// without it are plain C++, which tests/ compile for the processor.
#pragma once

#include <cstddef>
#include <type_traits>

#include "validate/cuda/kernels/launch.h"

namespace gpuplan::cuda {

#ifdef __CUDACC__

/// `shared` is in bytes. Arguments convert as those of a call. check_launch() says whether it was refused.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream,
            std::type_identity_t<Parameters>... arguments) {
  kernel<<<grid, block, shared, stream>>>(arguments...);
}

/// Of the block, as many bytes as it was launched with.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return memory;
}

#else

/// Defined by whoever compiles kernels as C++: calls `thread(arguments)` as every thread of the grid.
void run_grid(dim3 grid, dim3 block, std::size_t shared, void (*thread)(const void* arguments), const void* arguments);

template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, CUstream_st*,
            std::type_identity_t<Parameters>... arguments) {
  const auto call = [&] { kernel(arguments...); };
  run_grid(
      grid, block, shared, [](const void* c) { (*static_cast<decltype(&call)>(c))(); }, &call);
}

unsigned char* dynamic_shared();

#endif

}  // namespace gpuplan::cuda
