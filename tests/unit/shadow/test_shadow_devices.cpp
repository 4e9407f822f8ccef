// Devices, contexts and NVML without a GPU, called directly, against NVIDIA's documentation of each function.
#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <cstdint>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/runtime.h"

using namespace gpuplan::shadow;

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaSetDeviceFlags(unsigned);
cudaError_t cudaGetDeviceFlags(unsigned*);
cudaError_t cudaDeviceGetLimit(std::size_t*, int);
cudaError_t cudaDeviceSetLimit(int, std::size_t);
cudaError_t cudaDeviceCanAccessPeer(int*, int, int);
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned);
cudaError_t cudaDeviceDisablePeerAccess(int);
int cuDeviceGet(int*, int);
int cuDeviceTotalMem_v2(std::size_t*, int);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxGetCurrent(void**);
int cuCtxSetCurrent(const void*);
int cuCtxPushCurrent_v2(const void*);
int cuCtxPopCurrent_v2(void**);
int nvmlDeviceGetHandleByIndex_v2(unsigned, void**);
int nvmlDeviceGetMemoryInfo(void*, void*);
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned*, void*);
}

TEST_CASE("shadow: limits and flags of a device are held") {
  constexpr int kStackSize = 0, kMallocHeapSize = 2;  // cudaLimit
  std::size_t bytes = 0;
  CHECK(cudaDeviceGetLimit(&bytes, kStackSize) == cudaSuccess);
  CHECK(bytes == 1024);
  CHECK(cudaDeviceGetLimit(&bytes, kMallocHeapSize) == cudaSuccess);
  CHECK(bytes == 8 << 20);
  CHECK(cudaDeviceSetLimit(kMallocHeapSize, 32 << 20) == cudaSuccess);
  CHECK(cudaDeviceGetLimit(&bytes, kMallocHeapSize) == cudaSuccess);
  CHECK(bytes == 32 << 20);
  CHECK(cudaDeviceGetLimit(&bytes, 99) == cudaErrorInvalidValue);
  CHECK(cudaDeviceGetLimit(nullptr, kStackSize) == cudaErrorInvalidValue);
  unsigned flags = 9;
  CHECK(cudaSetDeviceFlags(4) == cudaSuccess);
  CHECK(cudaGetDeviceFlags(&flags) == cudaSuccess);
  CHECK(flags == 4);
  CHECK(cudaSetDeviceFlags(0) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("shadow: a device is no peer of its own") {
  int can = 9;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 0) == cudaSuccess);
  CHECK(can == 0);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(0, 1) == cudaErrorInvalidValue);
  CHECK(cudaDeviceDisablePeerAccess(0) == cudaErrorInvalidDevice);
  CHECK(cudaGetDeviceCount(nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("shadow: contexts are pushed and popped") {
  constexpr int kInvalidContext = 201;  // CUDA_ERROR_INVALID_CONTEXT
  void *context = nullptr, *current = nullptr, *popped = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == cudaSuccess);
  CHECK(cuDevicePrimaryCtxRetain(&context, 1) == cudaErrorInvalidDevice);
  CHECK(cuCtxPopCurrent_v2(&popped) == kInvalidContext);
  CHECK(cuCtxPushCurrent_v2(context) == cudaSuccess);
  CHECK(cuCtxGetCurrent(&current) == cudaSuccess);
  CHECK(current == context);
  CHECK(cuCtxPushCurrent_v2(&current) == kInvalidContext);
  CHECK(cuCtxSetCurrent(&current) == kInvalidContext);
  CHECK(cuCtxSetCurrent(nullptr) == cudaSuccess);
  CHECK(cuCtxPopCurrent_v2(&popped) == cudaSuccess);
  CHECK(popped == context);
  CHECK(cuCtxPopCurrent_v2(&popped) == kInvalidContext);
  int device = 9;
  std::size_t bytes = 0;
  CHECK(cuDeviceGet(&device, 1) == cudaErrorInvalidDevice);
  CHECK(cuDeviceTotalMem_v2(&bytes, 1) == cudaErrorInvalidDevice);
}

TEST_CASE("shadow: NVML names the processes on a device, and knows its own handles only") {
  constexpr int kInvalidArgument = 2, kInsufficientSize = 7;
  struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
  } process{};
  void *block = nullptr, *device = nullptr;
  REQUIRE(cudaMalloc(&block, 4 << 20) == cudaSuccess);
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(0, &device) == 0);
  CHECK(nvmlDeviceGetHandleByIndex_v2(1, &device) == kInvalidArgument);
  unsigned count = 0;
  CHECK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr) == kInsufficientSize);
  REQUIRE(count == 1);
  CHECK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, &process) == 0);
  CHECK(process.pid == static_cast<unsigned>(getpid()));
  CHECK(process.used >= 4U << 20);
  std::array<unsigned long long, 3> memory{};
  CHECK(nvmlDeviceGetMemoryInfo(device, memory.data()) == 0);
  CHECK(memory[0] == memory[1] + memory[2]);
  CHECK(nvmlDeviceGetMemoryInfo(&memory, memory.data()) == kInvalidArgument);
  CHECK(nvmlDeviceGetMemoryInfo(nullptr, memory.data()) == kInvalidArgument);
  CHECK(cudaFree(block) == cudaSuccess);
}
