// cudaHostAlloc and cudaHostRegister. Page-locked memory is ordinary memory here: pages that nobody writes take none.
#include "validate/shadow/runtime/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Pinned {
  std::size_t bytes;
  bool ours;   // of cudaHostAlloc
  int device;  // that was current
};

struct Registry {
  std::mutex mutex;
  std::map<std::uintptr_t, Pinned> ranges;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

const std::pair<const std::uintptr_t, Pinned>* find(const Registry& r, std::uintptr_t at) {
  auto range = r.ranges.upper_bound(at);
  if (range == r.ranges.begin()) return nullptr;
  --range;
  return at < range->first + range->second.bytes ? &*range : nullptr;
}

constexpr std::size_t kPage = 4096;

}  // namespace

int device_of_pinned(const void* pointer) {
  const std::lock_guard lock(registry().mutex);
  const auto* const range = find(registry(), reinterpret_cast<std::uintptr_t>(pointer));
  return range == nullptr ? -1 : range->second.device;
}

SHADOW_API cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > SIZE_MAX - kPage) return fail(cudaErrorMemoryAllocation);
  void* const memory =
      mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
  const std::lock_guard lock(registry().mutex);
  registry().ranges.emplace(reinterpret_cast<std::uintptr_t>(memory), Pinned{bytes, true, current_device()});
  *pointer = memory;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }

SHADOW_API cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const std::lock_guard lock(registry().mutex);
  const auto range = registry().ranges.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (range == registry().ranges.end() || !range->second.ours) return fail(cudaErrorInvalidValue);
  munmap(pointer, round_up(range->second.bytes, kPage));
  registry().ranges.erase(range);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return fail(cudaErrorInvalidValue);
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(registry().mutex);
  const auto next = registry().ranges.lower_bound(begin);
  const bool overlaps =
      find(registry(), begin) != nullptr || (next != registry().ranges.end() && next->first - begin < bytes);
  if (overlaps) return fail(cudaErrorHostMemoryAlreadyRegistered);
  registry().ranges.emplace(begin, Pinned{bytes, false, current_device()});
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaHostUnregister(void* pointer) {
  const std::lock_guard lock(registry().mutex);
  const auto range = registry().ranges.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (range == registry().ranges.end() || range->second.ours) return fail(cudaErrorHostMemoryNotRegistered);
  registry().ranges.erase(range);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (!is_pinned(host)) return fail(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

// The same of the driver.
SHADOW_API int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}
SHADOW_API int cuMemAllocHost_v2(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
SHADOW_API int cuMemFreeHost(void* pointer) { return cudaFreeHost(pointer); }
SHADOW_API int cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags) {
  return cudaHostRegister(pointer, bytes, flags);
}
SHADOW_API int cuMemHostUnregister(void* pointer) { return cudaHostUnregister(pointer); }
SHADOW_API int cuMemHostGetDevicePointer_v2(void** device, void* host, unsigned flags) {
  return cudaHostGetDevicePointer(device, host, flags);
}

SHADOW_API cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  if (!is_pinned(pointer)) return fail(cudaErrorInvalidValue);
  *flags = 0;
  return cudaSuccess;
}

}  // namespace gpuplan::shadow
