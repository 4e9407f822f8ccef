// Memory and events of one process in another: a handle carries what the importing process needs to know. The memory
// stays charged to its owner; here it is addresses only, as all device memory is, and what lies there is unknown.
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {

struct Event;
SHADOW_API cudaError_t cudaEventCreateWithFlags(Event** event, unsigned flags);

namespace {

// CUDA's handles are 64 bytes, which it leaves to itself.
struct IpcHandle {
  std::array<char, 16> mark;
  std::int64_t process, card;
  std::uint64_t base, bytes, unused[2];
};
static_assert(sizeof(IpcHandle) == 64);
constexpr std::array<char, 16> kMemoryMark = {"gpuplan memory"}, kEventMark = {"gpuplan event"};

struct Imported {
  std::uintptr_t here = 0;
  int opened = 0;
};
struct Imports {
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::uint64_t>, Imported> ranges;  // by process and base there
};
Imports& imports() {
  static auto* const instance = new Imports;
  return *instance;
}

// -1: CUDA_VISIBLE_DEVICES hides the card from this process.
int device_of_card(std::int64_t card) {
  for (int device = 0; device < visible_devices(); ++device)
    if (physical_device(device) == card) return device;
  return -1;
}

cudaError_t export_memory(IpcHandle* handle, const void* pointer) {
  const DeviceRange range = range_of(pointer);
  if (handle == nullptr || range.device < 0 || range.managed) return cudaErrorInvalidValue;
  *handle = {kMemoryMark, getpid(), physical_device(range.device), range.base, range.bytes, {}};
  return cudaSuccess;
}

// Opened again it is the same address, as CUDA has it.
cudaError_t import_memory(void** pointer, const IpcHandle& handle) {
  if (pointer == nullptr || handle.mark != kMemoryMark) return cudaErrorInvalidValue;
  const int device = device_of_card(handle.card);
  if (device < 0) return cudaErrorInvalidResourceHandle;
  if (handle.process == getpid()) return cudaErrorDeviceUninitialized;  // so on an H200
  const std::lock_guard lock(imports().mutex);
  Imported& range = imports().ranges[{handle.process, handle.base}];
  if (range.opened == 0) range.here = reserve_addresses(device, handle.bytes);
  if (range.here == 0) return cudaErrorMemoryAllocation;
  ++range.opened;
  *pointer = reinterpret_cast<void*>(range.here);
  return cudaSuccess;
}

cudaError_t close_memory(const void* pointer) {
  const std::lock_guard lock(imports().mutex);
  auto& ranges = imports().ranges;
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    if (range->second.here != reinterpret_cast<std::uintptr_t>(pointer)) continue;
    if (--range->second.opened == 0) {
      release_addresses(range->second.here);
      ranges.erase(range);
    }
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

SHADOW_API cudaError_t cudaIpcGetMemHandle(IpcHandle* handle, void* pointer) {
  const cudaError_t error = export_memory(handle, pointer);
  return error == cudaSuccess ? error : fail(error);
}
SHADOW_API cudaError_t cudaIpcOpenMemHandle(void** pointer, IpcHandle handle, unsigned) {
  const cudaError_t error = import_memory(pointer, handle);
  return error == cudaSuccess ? error : fail(error);
}
SHADOW_API cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  const cudaError_t error = close_memory(pointer);
  return error == cudaSuccess ? error : fail(error);
}
SHADOW_API int cuIpcGetMemHandle(IpcHandle* handle, std::uintptr_t pointer) {
  return export_memory(handle, reinterpret_cast<void*>(pointer));
}
SHADOW_API int cuIpcOpenMemHandle_v2(std::uintptr_t* pointer, IpcHandle handle, unsigned) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  void* here = nullptr;
  const cudaError_t error = import_memory(&here, handle);
  if (error == cudaSuccess) *pointer = reinterpret_cast<std::uintptr_t>(here);
  return error;
}
SHADOW_API int cuIpcCloseMemHandle(std::uintptr_t pointer) {
  return close_memory(reinterpret_cast<const void*>(pointer));
}

// Another process's work is done when it is asked about: an event of our own, which nobody has recorded.
SHADOW_API cudaError_t cudaIpcGetEventHandle(IpcHandle* handle, Event* event) {
  if (handle == nullptr || event == nullptr) return fail(cudaErrorInvalidValue);
  *handle = {kEventMark, getpid(), 0, 0, 0, {}};
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaIpcOpenEventHandle(Event** event, IpcHandle handle) {
  if (handle.mark != kEventMark) return fail(cudaErrorInvalidResourceHandle);
  return cudaEventCreateWithFlags(event, 0);
}

}  // namespace gpuplan::shadow
