// The driver API's memory: linear allocations, and virtual-memory management, which PyTorch's expandable segments use:
// physical pages (a charge without an address) are mapped into reserved addresses.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/copies.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/host_memory.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

// CUmemAllocationProp's beginning, the same in 12 and 13.
struct AllocationProperties {
  int type;           // 1: pinned
  int handle_types;   // requested for sharing
  int location_type;  // 1: device
  int location_id;
};

struct Physical {
  int device;
  std::size_t bytes;
  int references;  // the handle's own, and one for each mapping
  AllocationProperties properties;
};

struct Mapping {
  std::size_t bytes;
  std::uint64_t handle;
};

struct Pages {
  std::mutex mutex;
  std::uint64_t next_handle = 1;
  std::map<std::uint64_t, Physical> physical;
  std::map<std::uintptr_t, Mapping> mapped;
};

Pages& pages() {
  static auto* const instance = new Pages;
  return *instance;
}

void drop(std::uint64_t handle) {
  const auto found = pages().physical.find(handle);
  if (found == pages().physical.end() || --found->second.references > 0) return;
  discharge_device(found->second.device, static_cast<std::int64_t>(found->second.bytes));
  pages().physical.erase(found);
}

bool whole_pages(std::size_t bytes) {
  return bytes > 0 && bytes % kGranularity == 0 && bytes <= static_cast<std::size_t>(INT64_MAX);
}

// Whether anything is mapped in the range; call with the mutex held.
bool is_mapped(std::uintptr_t address, std::size_t bytes) {
  const auto after = pages().mapped.lower_bound(address);
  if (after != pages().mapped.end() && after->first - address < bytes) return true;
  if (after == pages().mapped.begin()) return false;
  const auto before = std::prev(after);
  return address - before->first < before->second.bytes;
}

// On a stream, or for the host to wait for.
int copy_on(void* destination, const void* source, std::size_t bytes, Stream* stream) {
  if (bytes == 0) return cudaSuccess;
  if (destination == nullptr || source == nullptr) return cudaErrorInvalidValue;
  if (!enqueue(stream, 0)) copy_memory(destination, source, bytes);
  return cudaSuccess;
}
int copy(void* destination, const void* source, std::size_t bytes) {
  const cudaError_t waited = wait_for_stream(nullptr);
  return waited == cudaSuccess ? copy_on(destination, source, bytes, nullptr) : waited;
}

template <typename Word>
int fill(void* address, Word value, std::size_t count, Stream* stream) {
  if (count == 0) return cudaSuccess;
  if (address == nullptr) return cudaErrorInvalidValue;
  if (enqueue(stream, 0)) return cudaSuccess;
  return fill_memory(address, value, count) ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

SHADOW_API int cuMemAlloc_v2(void** pointer, std::size_t bytes) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  *pointer = allocate_device(current_device(), bytes);
  return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
SHADOW_API int cuMemFree_v2(void* pointer) {
  return pointer == nullptr || free_device(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}
SHADOW_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
  *total = static_cast<std::size_t>(settings().gpu.total_global_mem);
  *free = static_cast<std::size_t>(free_bytes(current_device()));
  return cudaSuccess;
}
SHADOW_API int cuMemGetAddressRange_v2(void** base, std::size_t* bytes, const void* pointer) {
  const DeviceRange range = range_of(pointer);
  if (range.device < 0) return cudaErrorInvalidValue;
  if (base != nullptr) *base = reinterpret_cast<void*>(range.base);
  if (bytes != nullptr) *bytes = range.bytes;
  return cudaSuccess;
}

SHADOW_API int cuMemcpyHtoD_v2(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
SHADOW_API int cuMemcpyDtoH_v2(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
SHADOW_API int cuMemcpyDtoD_v2(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
SHADOW_API int cuMemcpy(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
SHADOW_API int cuMemcpyAsync(void* to, const void* from, std::size_t bytes, Stream* stream) {
  return copy_on(to, from, bytes, stream);
}
SHADOW_API int cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t bytes, Stream* stream) {
  return copy_on(to, from, bytes, stream);
}
SHADOW_API int cuMemcpyDtoHAsync_v2(void* to, const void* from, std::size_t bytes, Stream* stream) {
  return copy_on(to, from, bytes, stream);
}
SHADOW_API int cuMemcpyDtoDAsync_v2(void* to, const void* from, std::size_t bytes, Stream* stream) {
  return copy_on(to, from, bytes, stream);
}
SHADOW_API int cuMemsetD8_v2(void* at, std::uint8_t value, std::size_t count) {
  return fill(at, value, count, nullptr);
}
SHADOW_API int cuMemsetD32_v2(void* at, std::uint32_t value, std::size_t count) {
  return fill(at, value, count, nullptr);
}
SHADOW_API int cuMemsetD8Async(void* at, std::uint8_t value, std::size_t count, Stream* stream) {
  return fill(at, value, count, stream);
}
SHADOW_API int cuMemsetD16Async(void* at, std::uint16_t value, std::size_t count, Stream* stream) {
  return fill(at, value, count, stream);
}
SHADOW_API int cuMemsetD32Async(void* at, std::uint32_t value, std::size_t count, Stream* stream) {
  return fill(at, value, count, stream);
}

// CUpointer_attribute: 2 memory type (1 host, 2 device), 3 and 4 device and host pointer, 8 managed, 9 device, 11 and
// 12 the range's start and size.
SHADOW_API int cuPointerGetAttribute(void* value, int attribute, const void* pointer) {
  const DeviceRange range = range_of(pointer);
  if (value == nullptr || (range.device < 0 && !is_pinned(pointer))) return cudaErrorInvalidValue;
  switch (attribute) {
    case 2: *static_cast<unsigned*>(value) = range.device >= 0 ? 2 : 1; break;
    case 3:
    case 4: *static_cast<const void**>(value) = pointer; break;
    case 7: *static_cast<std::uint64_t*>(value) = range.base; break;
    case 8: *static_cast<unsigned*>(value) = range.managed ? 1 : 0; break;
    case 9: *static_cast<int*>(value) = range.device >= 0 ? range.device : device_of_pinned(pointer); break;
    case 11: *static_cast<std::uintptr_t*>(value) = range.base; break;
    case 12: *static_cast<std::size_t*>(value) = range.bytes; break;
    case 6:
    case 10:
    case 13:
    case 14:
    case 15: *static_cast<unsigned*>(value) = 0; break;
    default: return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

// Attributes that a pointer has none of are zero, where one by one they are errors.
SHADOW_API int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, const void* pointer) {
  if (attributes == nullptr || values == nullptr) return cudaErrorInvalidValue;
  constexpr int kRangeSize = 12, kWide[] = {3, 4, 7, 11, kRangeSize};
  for (unsigned i = 0; i < count; ++i) {
    if (cuPointerGetAttribute(values[i], attributes[i], pointer) == cudaSuccess) continue;
    const bool wide = std::ranges::find(kWide, attributes[i]) != std::end(kWide);
    std::memset(values[i], 0, wide ? sizeof(std::uint64_t) : sizeof(unsigned));
  }
  return cudaSuccess;
}

// --- virtual-memory management -------------------------------------------------------------------------------------

SHADOW_API int cuMemGetAllocationGranularity(std::size_t* granularity, const AllocationProperties* properties, int) {
  if (granularity == nullptr || properties == nullptr) return cudaErrorInvalidValue;
  *granularity = kGranularity;
  return cudaSuccess;
}

SHADOW_API int cuMemAddressReserve(std::uintptr_t* address, std::size_t bytes, std::size_t, std::uintptr_t,
                                   unsigned long long) {
  if (address == nullptr || !whole_pages(bytes)) return cudaErrorInvalidValue;
  *address = reserve_addresses(current_device(), bytes);
  return *address != 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
// "The size must match what was given": nothing may be mapped there any more.
SHADOW_API int cuMemAddressFree(std::uintptr_t address, std::size_t bytes) {
  const DeviceRange range = range_of(reinterpret_cast<void*>(address));
  if (range.device < 0 || range.base != address || range.bytes != bytes) return cudaErrorInvalidValue;
  const std::lock_guard lock(pages().mutex);
  if (is_mapped(address, bytes)) return cudaErrorInvalidValue;
  return release_addresses(address) ? cudaSuccess : cudaErrorInvalidValue;
}

SHADOW_API int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const AllocationProperties* properties,
                           unsigned long long) {
  if (handle == nullptr || properties == nullptr || !whole_pages(bytes)) return cudaErrorInvalidValue;
  constexpr int kOnDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  if (properties->location_type != kOnDevice) return cudaErrorNotSupported;
  const int device = properties->location_id;
  if (device < 0 || device >= visible_devices()) return cudaErrorInvalidDevice;
  if (!charge_device(device, static_cast<std::int64_t>(bytes))) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(pages().mutex);
  *handle = pages().next_handle++;
  pages().physical.emplace(*handle, Physical{device, bytes, 1, *properties});
  return cudaSuccess;
}

SHADOW_API int cuMemRelease(std::uint64_t handle) {
  const std::lock_guard lock(pages().mutex);
  if (!pages().physical.contains(handle)) return cudaErrorInvalidValue;
  drop(handle);
  return cudaSuccess;
}

SHADOW_API int cuMemMap(std::uintptr_t address, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                        unsigned long long) {
  const DeviceRange range = range_of(reinterpret_cast<void*>(address));
  if (range.device < 0 || !whole_pages(bytes) || address % kGranularity != 0 || offset != 0) {
    return cudaErrorInvalidValue;
  }
  if (bytes > range.bytes - (address - range.base)) return cudaErrorInvalidValue;  // not all of it is reserved
  const std::lock_guard lock(pages().mutex);
  const auto physical = pages().physical.find(handle);
  if (physical == pages().physical.end() || bytes > physical->second.bytes) return cudaErrorInvalidValue;
  if (is_mapped(address, bytes)) return cudaErrorInvalidValue;
  ++physical->second.references;
  pages().mapped.emplace(address, Mapping{bytes, handle});
  return cudaSuccess;
}

// Several mappings at once, one behind the other; none in part.
SHADOW_API int cuMemUnmap(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(pages().mutex);
  const auto first = pages().mapped.find(address);
  std::size_t found = 0;
  auto last = first;
  while (last != pages().mapped.end() && found < bytes && last->first == address + found) {
    found += last->second.bytes;
    ++last;
  }
  if (bytes == 0 || found != bytes) return cudaErrorInvalidValue;
  for (auto mapping = first; mapping != last; mapping = pages().mapped.erase(mapping)) drop(mapping->second.handle);
  forget_written(reinterpret_cast<void*>(address), bytes);
  return cudaSuccess;
}

SHADOW_API int cuMemSetAccess(std::uintptr_t, std::size_t, const void*, std::size_t) { return cudaSuccess; }

SHADOW_API int cuMemRetainAllocationHandle(std::uint64_t* handle, std::uintptr_t address) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(pages().mutex);
  auto mapping = pages().mapped.upper_bound(address);
  if (mapping == pages().mapped.begin()) return cudaErrorInvalidValue;
  --mapping;
  if (address >= mapping->first + mapping->second.bytes) return cudaErrorInvalidValue;
  *handle = mapping->second.handle;
  ++pages().physical.at(*handle).references;
  return cudaSuccess;
}

SHADOW_API int cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, std::uint64_t handle) {
  const std::lock_guard lock(pages().mutex);
  const auto physical = pages().physical.find(handle);
  if (physical == pages().physical.end()) return cudaErrorInvalidValue;
  *properties = physical->second.properties;
  return cudaSuccess;
}

SHADOW_API int cuMemExportToShareableHandle(void*, std::uint64_t, int, unsigned long long) {
  note_unknown("sharing device memory between processes is refused by a shadow GPU");
  return cudaErrorNotSupported;
}
SHADOW_API int cuMemImportFromShareableHandle(std::uint64_t*, void*, int) {
  note_unknown("sharing device memory between processes is refused by a shadow GPU");
  return cudaErrorNotSupported;
}

}  // namespace gpuplan::shadow
