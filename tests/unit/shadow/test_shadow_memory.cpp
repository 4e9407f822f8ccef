// Memory of the CUDA runtime and driver without a GPU, called directly: what their documentation says of errors, and
// what copies do. test_shadow_runtime.cpp has the plain cases.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"

using namespace gpuplan::shadow;

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaMallocPitch(void**, std::size_t*, std::size_t, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMemGetInfo(std::size_t*, std::size_t*);
cudaError_t cudaMemcpy(void*, const void*, std::size_t, int);
cudaError_t cudaMemcpy2D(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, int);
cudaError_t cudaMemset2DAsync(void*, std::size_t, int, std::size_t, std::size_t, void*);
cudaError_t cudaMallocAsync(void**, std::size_t, void*);
cudaError_t cudaMallocFromPoolAsync(void**, std::size_t, void*, void*);
cudaError_t cudaFreeAsync(void*, void*);
cudaError_t cudaDeviceGetDefaultMemPool(void**, int);
cudaError_t cudaDeviceGetMemPool(void**, int);
cudaError_t cudaDeviceSetMemPool(int, void*);
cudaError_t cudaMemPoolCreate(void**, const void*);
cudaError_t cudaMemPoolDestroy(void*);
int cuMemCreate(std::uint64_t*, std::size_t, const void*, unsigned long long);
int cuMemAddressReserve(std::uintptr_t*, std::size_t, std::size_t, std::uintptr_t, unsigned long long);
int cuMemAddressFree(std::uintptr_t, std::size_t);
int cuMemMap(std::uintptr_t, std::size_t, std::size_t, std::uint64_t, unsigned long long);
int cuMemUnmap(std::uintptr_t, std::size_t);
int cuMemRelease(std::uint64_t);
int cuMemGetAllocationGranularity(std::size_t*, const void*, int);
int cuMemsetD32Async(void*, std::uint32_t, std::size_t, void*);
int cuMemcpyDtoH_v2(void*, const void*, std::size_t);
int cuStreamWriteValue32_v2(void*, std::uint32_t*, std::uint32_t, unsigned);
std::int64_t gpuplan_shadow_used_bytes(int);
}

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// cudaMemPoolProps and CUmemAllocationProp, as far as they begin alike.
struct Properties {
  int type = 1, handle_types = 0, location_type = 1, location_id = 0;
  std::array<char, 80> rest{};
};

struct DeviceBlock {
  explicit DeviceBlock(std::size_t bytes) { REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock() { cudaFree(pointer); }
  void* pointer = nullptr;
};

}  // namespace

TEST_CASE("shadow: sizes near the largest are refused as sizes, and leave nothing charged") {
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  void* block = nullptr;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (SIZE_MAX / 2 + 1) - kGranularity}) {
    CHECK(cudaMalloc(&block, bytes) == cudaErrorMemoryAllocation);
    CHECK(block == nullptr);
    CHECK(cudaMallocAsync(&block, bytes, nullptr) == cudaErrorMemoryAllocation);
    CHECK(counters().refused_bytes > settings().gpu.total_global_mem);
    CHECK(counters().refused_free_bytes >= 0);
  }
  std::size_t pitch = 0;
  CHECK(cudaMallocPitch(&block, &pitch, SIZE_MAX, 2) == cudaErrorMemoryAllocation);
  CHECK(cudaMallocPitch(&block, &pitch, 1000, SIZE_MAX / 1000) == cudaErrorMemoryAllocation);
  const Properties properties;
  std::uint64_t handle = 0;
  CHECK(cuMemCreate(&handle, SIZE_MAX / kGranularity * kGranularity, &properties, 0) == cudaErrorInvalidValue);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  cudaGetLastError();
}

TEST_CASE("shadow: a copy has a direction, two ends and rows that fit") {
  const DeviceBlock block(kMiB);
  std::array<char, 64> host{};
  CHECK(cudaMemcpy(block.pointer, host.data(), 64, 5) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(block.pointer, host.data(), 64, -1) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(nullptr, host.data(), 64, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2D(block.pointer, 8, host.data(), 8, 16, 2, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2D(block.pointer, SIZE_MAX, host.data(), SIZE_MAX, 16, 3, cudaMemcpyDefault) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemGetInfo(nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(cuMemcpyDtoH_v2(host.data(), nullptr, 4) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("shadow: a copy between two places of the host is real, however large") {
  const std::vector<char> from(4 * kMiB, 7);
  std::vector<char> to(4 * kMiB, 1);
  CHECK(cudaMemcpy(to.data(), from.data(), from.size(), cudaMemcpyHostToHost) == cudaSuccess);
  CHECK(to == from);
}

TEST_CASE("shadow: rows are copied all, or where they are too many together, none") {
  const DeviceBlock block(16 * kMiB);
  constexpr std::size_t kWidth = 512, kPitch = 1024;
  std::vector<char> from(kWidth * 4096, 7), to(from.size(), 1);
  const auto there_and_back = [&](std::size_t rows) {
    CHECK(cudaMemcpy2D(block.pointer, kPitch, from.data(), kWidth, kWidth, rows, cudaMemcpyHostToDevice) ==
          cudaSuccess);
    CHECK(cudaMemcpy2D(to.data(), kWidth, block.pointer, kPitch, kWidth, rows, cudaMemcpyDeviceToHost) == cudaSuccess);
  };
  there_and_back(16);
  CHECK(std::count(to.begin(), to.begin() + 16 * kWidth, 7) == 16 * kWidth);
  there_and_back(4096);  // 2 MiB, over the limit of 1 MiB
  CHECK(std::count(to.begin(), to.end(), 0) == static_cast<std::ptrdiff_t>(to.size()));
}

TEST_CASE("shadow: fills are read back, in words and in rows") {
  const DeviceBlock block(kMiB);
  std::array<std::uint32_t, 4> words{};
  CHECK(cuMemsetD32Async(block.pointer, 0x01020304, words.size(), nullptr) == cudaSuccess);
  CHECK(cuMemcpyDtoH_v2(words.data(), block.pointer, sizeof words) == cudaSuccess);
  CHECK(words == std::array<std::uint32_t, 4>{0x01020304, 0x01020304, 0x01020304, 0x01020304});
  CHECK(cuMemsetD32Async(nullptr, 1, 4, nullptr) == cudaErrorInvalidValue);
  CHECK(cuMemsetD32Async(block.pointer, 1, SIZE_MAX / 2, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemset2DAsync(block.pointer, 64, 5, 4, 2, nullptr) == cudaSuccess);
  std::array<char, 4> row{};
  CHECK(cudaMemcpy(row.data(), static_cast<char*>(block.pointer) + 64, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(row == std::array<char, 4>{5, 5, 5, 5});
  auto* const flag = static_cast<std::uint32_t*>(block.pointer) + 100;
  CHECK(cuStreamWriteValue32_v2(nullptr, flag, 42, 0) == cudaSuccess);
  CHECK(cuMemcpyDtoH_v2(words.data(), flag, 4) == cudaSuccess);
  CHECK(words[0] == 42);
  cudaGetLastError();
}

TEST_CASE("shadow: virtual memory is mapped and unmapped whole") {
  const Properties properties;
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  std::uintptr_t address = 0;
  std::uint64_t handle = 0;
  constexpr std::size_t kPages = 2 * kGranularity;
  REQUIRE(cuMemAddressReserve(&address, 4 * kPages, 0, 0, 0) == cudaSuccess);
  REQUIRE(cuMemCreate(&handle, kPages, &properties, 0) == cudaSuccess);
  CHECK(cuMemMap(address, 2 * kPages, 0, handle, 0) == cudaErrorInvalidValue);                 // more than there is
  CHECK(cuMemMap(address + 4 * kPages, kPages, 0, handle, 0) == cudaErrorInvalidValue);        // not reserved
  CHECK(cuMemMap(address + 7 * kGranularity, kPages, 0, handle, 0) == cudaErrorInvalidValue);  // in part
  CHECK(cuMemMap(address + 512, kPages, 0, handle, 0) == cudaErrorInvalidValue);
  REQUIRE(cuMemMap(address, kPages, 0, handle, 0) == cudaSuccess);
  CHECK(cuMemMap(address + kGranularity, kPages, 0, handle, 0) == cudaErrorInvalidValue);  // mapped already
  REQUIRE(cuMemMap(address + kPages, kPages, 0, handle, 0) == cudaSuccess);
  CHECK(cuMemUnmap(address, kGranularity) == cudaErrorInvalidValue);
  CHECK(cuMemUnmap(address + kGranularity, kGranularity) == cudaErrorInvalidValue);
  CHECK(cuMemAddressFree(address, 4 * kPages) == cudaErrorInvalidValue);  // still mapped
  CHECK(cuMemRelease(handle) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) - before == static_cast<std::int64_t>(kPages));
  CHECK(cuMemUnmap(address, 2 * kPages) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  CHECK(cuMemUnmap(address, kPages) == cudaErrorInvalidValue);
  CHECK(cuMemAddressFree(address, kPages) == cudaErrorInvalidValue);  // another size
  CHECK(cuMemAddressFree(address, 4 * kPages) == cudaSuccess);
  CHECK(cuMemRelease(handle) == cudaErrorInvalidValue);
  Properties on_host;
  on_host.location_type = 2;
  CHECK(cuMemCreate(&handle, kPages, &on_host, 0) == cudaErrorNotSupported);
  CHECK(cuMemGetAllocationGranularity(nullptr, &properties, 0) == cudaErrorInvalidValue);
}

TEST_CASE("shadow: a pool that is destroyed lives until its last block is freed") {
  const Properties properties;
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  void *pool = nullptr, *standard = nullptr, *current = nullptr, *one = nullptr, *two = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&standard, 0) == cudaSuccess);
  CHECK(cudaMemPoolDestroy(standard) == cudaErrorInvalidValue);
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  REQUIRE(cudaDeviceSetMemPool(0, pool) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&one, 40 * kMiB, nullptr) == cudaSuccess);
  REQUIRE(cudaMallocFromPoolAsync(&two, kMiB, pool, nullptr) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) - before == static_cast<std::int64_t>(64 * kMiB));
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(cudaDeviceGetMemPool(&current, 0) == cudaSuccess);
  CHECK(current == standard);
  CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
  void* three = nullptr;
  CHECK(cudaMallocFromPoolAsync(&three, kMiB, pool, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(one, nullptr) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) > before);
  CHECK(cudaFreeAsync(two, nullptr) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  CHECK(cudaFreeAsync(two, nullptr) == cudaErrorInvalidValue);

  // A pool of the program's gives back at a synchronization, too.
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  REQUIRE(cudaMallocFromPoolAsync(&one, kMiB, pool, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(one, nullptr) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) > before);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  Properties elsewhere;
  elsewhere.location_id = 7;
  CHECK(cudaMemPoolCreate(&pool, &elsewhere) == cudaErrorInvalidDevice);
  cudaGetLastError();
}
