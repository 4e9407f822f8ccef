// The CUDA runtime without a GPU, called directly. Values are those of the CUDA runtime's documentation.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/session.h"

using namespace gpuplan::shadow;

extern "C" {
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaDeviceGetAttribute(int*, int, int);
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMemGetInfo(std::size_t*, std::size_t*);
cudaError_t cudaMemcpy(void*, const void*, std::size_t, int);
cudaError_t cudaMemset(void*, int, std::size_t);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes*, const void*);
cudaError_t cudaHostAlloc(void**, std::size_t, unsigned);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaHostRegister(void*, std::size_t, unsigned);
cudaError_t cudaHostUnregister(void*);
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, void*);
cudaError_t cudaFuncSetAttribute(const void*, int, int);
int cuFuncSetAttribute(const void*, int, int);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
int cuMemCreate(std::uint64_t*, std::size_t, const void*, unsigned long long);
int cuMemAddressReserve(std::uintptr_t*, std::size_t, std::size_t, std::uintptr_t, unsigned long long);
int cuMemAddressFree(std::uintptr_t, std::size_t);
int cuMemMap(std::uintptr_t, std::size_t, std::size_t, std::uint64_t, unsigned long long);
int cuMemUnmap(std::uintptr_t, std::size_t);
int cuMemRelease(std::uint64_t);
int cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, int*);
std::int64_t gpuplan_shadow_launches();
std::int64_t gpuplan_shadow_used_bytes(int);
}

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

std::size_t free_now() {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

const char kernel = 0;  // its address stands for a host stub

cudaError_t launch(void* stream) { return cudaLaunchKernel(&kernel, {1, 1, 1}, {128, 1, 1}, nullptr, 0, stream); }

}  // namespace

TEST_CASE("shadow: device memory is charged in 2 MiB pages and given back") {
  const std::size_t before = free_now();
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 3 * kMiB) == cudaSuccess);
  CHECK(before - free_now() == 4 * kMiB);
  CHECK(reinterpret_cast<std::uintptr_t>(block) % kGranularity == 0);
  CHECK(cudaFree(block) == cudaSuccess);
  CHECK(free_now() == before);
  CHECK(cudaFree(block) == cudaErrorInvalidValue);  // twice
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("shadow: small blocks share a page, 512 bytes apart") {
  std::array<void*, 8> blocks{};
  for (void*& block : blocks) REQUIRE(cudaMalloc(&block, 100) == cudaSuccess);
  const std::int64_t used = gpuplan_shadow_used_bytes(0);
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(blocks[i]) - reinterpret_cast<std::uintptr_t>(blocks[i - 1]) == 512);
  }
  for (void* block : blocks) CHECK(cudaFree(block) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == used);  // the open page stays for the next ones
}

TEST_CASE("shadow: more than the card holds is cudaErrorMemoryAllocation") {
  void* block = &block;
  CHECK(cudaMalloc(&block, free_now() + 1) == cudaErrorMemoryAllocation);
  CHECK(block == nullptr);
  CHECK(cudaMalloc(&block, SIZE_MAX) == cudaErrorMemoryAllocation);
  CHECK(std::string(cudaGetErrorString(cudaGetLastError())) == "out of memory");
  // 100 GiB of address space cost nothing.
  REQUIRE(cudaMalloc(&block, 100 * kGiB) == cudaSuccess);
  CHECK(cudaFree(block) == cudaSuccess);
}

TEST_CASE("shadow: what the host copied in is read back, what kernels should have written is zero") {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, kMiB) == cudaSuccess);
  std::array<int, 4> numbers{1, 2, 3, 4}, back{9, 9, 9, 9};
  cudaMemcpy(back.data(), block, sizeof back, cudaMemcpyDeviceToHost);
  CHECK(back == std::array<int, 4>{0, 0, 0, 0});
  cudaMemcpy(block, numbers.data(), sizeof numbers, cudaMemcpyHostToDevice);
  cudaMemcpy(back.data(), block, sizeof back, cudaMemcpyDeviceToHost);
  CHECK(back == numbers);
  int second = 9;
  cudaMemcpy(&second, static_cast<int*>(block) + 1, sizeof second, cudaMemcpyDeviceToHost);
  CHECK(second == 2);  // a part, no kernel having run
  launch(nullptr);
  cudaMemcpy(&second, static_cast<int*>(block) + 1, sizeof second, cudaMemcpyDeviceToHost);
  CHECK(second == 0);  // a kernel may have written another tensor there
  cudaMemcpy(back.data(), block, sizeof back, cudaMemcpyDeviceToHost);
  CHECK(back == numbers);  // the same piece
  cudaMemset(block, 0, 64);
  cudaMemcpy(back.data(), block, sizeof back, cudaMemcpyDeviceToHost);
  CHECK(back == std::array<int, 4>{0, 0, 0, 0});
  cudaMemset(block, 1, sizeof back);
  cudaMemcpy(back.data(), block, sizeof back, cudaMemcpyDeviceToHost);
  CHECK(back[3] == 0x01010101);
  cudaFree(block);
}

TEST_CASE("shadow: a copy over the limit moves nothing and zeroes the host's side") {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 4 * kMiB) == cudaSuccess);
  std::vector<char> host(2 * kMiB, 7);
  CHECK(cudaMemcpy(block, host.data(), host.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(host.data(), block, host.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host.front() == 0);
  CHECK(host.back() == 0);
  cudaFree(block);
}

TEST_CASE("shadow: pointers know where they belong") {
  void *block = nullptr, *pinned = nullptr;
  REQUIRE(cudaMalloc(&block, 2 * kMiB) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&pinned, 1000, 0) == cudaSuccess);
  std::vector<char> registered(5000);
  REQUIRE(cudaHostRegister(registered.data(), registered.size(), 0) == cudaSuccess);
  CHECK(cudaHostRegister(registered.data() + 10, 10, 0) == cudaErrorHostMemoryAlreadyRegistered);
  int local = 0;
  cudaPointerAttributes a{};
  cudaPointerGetAttributes(&a, static_cast<char*>(block) + 12345);
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.device == 0);
  cudaPointerGetAttributes(&a, static_cast<char*>(pinned) + 999);
  CHECK(a.type == cudaMemoryTypeHost);
  cudaPointerGetAttributes(&a, registered.data() + 4999);
  CHECK(a.type == cudaMemoryTypeHost);
  cudaPointerGetAttributes(&a, &local);
  CHECK(a.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFreeHost(registered.data()) == cudaErrorInvalidValue);  // not of cudaHostAlloc
  CHECK(cudaHostUnregister(registered.data()) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  cudaFree(block);
  cudaPointerGetAttributes(&a, block);
  CHECK(a.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("shadow: virtual memory is charged while a handle or a mapping lives") {
  struct {
    int type = 1, handle_types = 0, location_type = 1, location_id = 0;
    std::array<char, 64> rest{};
  } properties;
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  std::uintptr_t address = 0;
  std::uint64_t handle = 0;
  REQUIRE(cuMemAddressReserve(&address, 400 * kGiB, 0, 0, 0) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  REQUIRE(cuMemCreate(&handle, 20 * kMiB, &properties, 0) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) - before == static_cast<std::int64_t>(20 * kMiB));
  CHECK(cuMemMap(address, 20 * kMiB, 0, handle, 0) == cudaSuccess);
  CHECK(cuMemRelease(handle) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) - before == static_cast<std::int64_t>(20 * kMiB));
  CHECK(cuMemUnmap(address, 20 * kMiB) == cudaSuccess);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  CHECK(cuMemAddressFree(address, 400 * kGiB) == cudaSuccess);
  CHECK(cuMemCreate(&handle, 3, &properties, 0) == cudaErrorInvalidValue);  // not of the granularity
}

TEST_CASE("shadow: launches are checked as the driver checks them, and counted") {
  __cudaRegisterFunction(nullptr, &kernel, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::int64_t before = gpuplan_shadow_launches();
  CHECK(launch(nullptr) == cudaSuccess);
  CHECK(cudaLaunchKernel(&kernel, {1, 1, 1}, {1025, 1, 1}, nullptr, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(&kernel, {1, 65536, 1}, {1, 1, 1}, nullptr, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(&kernel, {0, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(&kernel, {1, 1, 1}, {1, 1, 65}, nullptr, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(&kernel, {1, 1, 1}, {1, 1, 1}, nullptr, kMiB, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaLaunchKernel(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr) == cudaErrorInvalidDeviceFunction);
  CHECK(gpuplan_shadow_launches() - before == 1);
}

TEST_CASE("shadow: a kernel takes more than 48 KiB of shared memory once it was allowed to") {
  static const char hungry = 0;
  constexpr int kMaxDynamicSharedMemorySize = 8, kKiB = 1024;
  const auto launch_with = [](int kib) {
    return cudaLaunchKernel(&hungry, {1, 1, 1}, {128, 1, 1}, nullptr, static_cast<std::size_t>(kib) * kKiB, nullptr);
  };
  CHECK(launch_with(48) == cudaSuccess);
  CHECK(launch_with(49) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(&hungry, kMaxDynamicSharedMemorySize, 100 * kKiB) == cudaSuccess);
  CHECK(launch_with(100) == cudaSuccess);
  CHECK(launch_with(101) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(&hungry, kMaxDynamicSharedMemorySize, 228 * kKiB) == cudaErrorInvalidValue);  // of 227
  CHECK(cuFuncSetAttribute(&hungry, kMaxDynamicSharedMemorySize, 227 * kKiB) == 0);
  constexpr int kNonPortableCluster = 14, kSharedMemoryMode = 17;  // of a later CUDA: a program then asks as above
  CHECK(cuFuncSetAttribute(&hungry, kNonPortableCluster, 1) == 0);
  CHECK(cuFuncSetAttribute(&hungry, kSharedMemoryMode, 3) == cudaErrorInvalidValue);
  CHECK(launch_with(227) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("shadow: the current device belongs to the thread") {
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  std::thread([] { CHECK(cudaGetLastError() == cudaSuccess); }).join();  // so does the last error
  int count = 0, major = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 1);
  constexpr int kComputeCapabilityMajor = 75;
  CHECK(cudaDeviceGetAttribute(&major, kComputeCapabilityMajor, 0) == cudaSuccess);
  CHECK(major == settings().gpu.major);
}

TEST_CASE("shadow: threads allocate at the same time") {
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        void* block = nullptr;
        CHECK(cudaMalloc(&block, 2 * kMiB) == cudaSuccess);
        const int value = i;
        int back = -1;
        cudaMemcpy(block, &value, sizeof value, cudaMemcpyHostToDevice);
        cudaMemcpy(&back, block, sizeof back, cudaMemcpyDeviceToHost);
        CHECK(back == value);
        cudaFree(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(gpuplan_shadow_used_bytes(0) == before);
}

TEST_CASE("shadow: a session's settings survive writing and reading") {
  Settings settings;
  settings.gpu.name = "NVIDIA A100=80";
  settings.gpu.total_global_mem = 85'100'068'864;
  settings.devices = 8;
  settings.peers = Peers::imagined;
  settings.world = 1024;
  settings.rank = 7;
  settings.snapshot = "/tmp/a b.pickle";
  settings.cudnn_workspaces = false;
  settings.values = 0;
  const Settings back = read_settings(write_settings(settings));
  CHECK(write_settings(back) == write_settings(settings));
  CHECK(back.gpu.name == "NVIDIA A100=80");
  CHECK(back.world == 1024);
  CHECK(back.values == 0);
  CHECK_THROWS_WITH(read_settings("colour=red\n"), "session: not a setting: colour=red");
  CHECK_THROWS(read_settings("devices=many\n"));
  CHECK_THROWS(read_settings("devices"));
  CHECK_THROWS(write_settings([] {
    Settings broken;
    broken.snapshot = "a\nb";
    return broken;
  }()));
}
