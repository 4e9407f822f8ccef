// NVML, as far as PyTorch, pynvml and monitoring callbacks ask: the GPUs of the session and the memory used on them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7;

unsigned device_count() { return static_cast<unsigned>(std::clamp(settings().devices, 1, kMaxDevices)); }

// NVML numbers all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says. A handle is the number plus one.
void* handle_of(unsigned device) { return reinterpret_cast<void*>(std::uintptr_t{device} + 1); }
// -1 where it is none of ours.
int device_of_handle(const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return number <= device_count() ? static_cast<int>(number) - 1 : -1;
}

}  // namespace

SHADOW_API int nvmlInit_v2() { return kSuccess; }
SHADOW_API int nvmlInit() { return kSuccess; }
SHADOW_API int nvmlInitWithFlags(unsigned) { return kSuccess; }
SHADOW_API int nvmlShutdown() { return kSuccess; }

SHADOW_API const char* nvmlErrorString(int code) {
  switch (code) {
    case kSuccess: return "Success";
    case kInvalidArgument: return "Invalid Argument";
    case kNotSupported: return "Not Supported";
    case kNotFound: return "Not Found";
    case kInsufficientSize: return "Insufficient Size";
    default: return "Unknown Error";
  }
}

SHADOW_API int nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  *count = device_count();
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

SHADOW_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (device == nullptr || index >= device_count()) return kInvalidArgument;
  *device = handle_of(index);
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
SHADOW_API int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** device) {
  unsigned domain = 0, bus = 0;
  if (text == nullptr || std::sscanf(text, "%x:%x", &domain, &bus) != 2 || bus == 0) return kNotFound;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}
SHADOW_API int nvmlDeviceGetHandleByUUID(const char*, void**) { return kNotFound; }
SHADOW_API int nvmlDeviceGetIndex(void* device, unsigned* index) {
  if (device_of_handle(device) < 0 || index == nullptr) return kInvalidArgument;
  *index = static_cast<unsigned>(device_of_handle(device));
  return kSuccess;
}

SHADOW_API int nvmlDeviceGetName(void* device, char* name, unsigned bytes) {
  if (device_of_handle(device) < 0 || name == nullptr) return kInvalidArgument;
  if (bytes <= settings().gpu.name.size()) return kInsufficientSize;
  std::strcpy(name, settings().gpu.name.c_str());
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  if (device_of_handle(device) < 0 || text == nullptr) return kInvalidArgument;
  const int written = std::snprintf(text, bytes, "%s", uuid_of(device_of_handle(device)).c_str());
  return written < static_cast<int>(bytes) ? kSuccess : kInsufficientSize;
}
SHADOW_API int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  if (device_of_handle(device) < 0 || major == nullptr || minor == nullptr) return kInvalidArgument;
  *major = settings().gpu.major;
  *minor = settings().gpu.minor;
  return kSuccess;
}

struct NvmlMemory {
  unsigned long long total, free, used;
};
SHADOW_API int nvmlDeviceGetMemoryInfo(void* device, NvmlMemory* memory) {
  if (device_of_handle(device) < 0 || memory == nullptr) return kInvalidArgument;
  const GpuDescription& gpu = settings().gpu;
  memory->total = static_cast<unsigned long long>(gpu.total_global_mem + gpu.reserved_memory);
  memory->used =
      static_cast<unsigned long long>(used_on(session_counters(), device_of_handle(device)) + gpu.reserved_memory);
  memory->free = memory->total - std::min(memory->total, memory->used);
  return kSuccess;
}
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
SHADOW_API int nvmlDeviceGetMemoryInfo_v2(void* device, NvmlMemory2* memory) {
  NvmlMemory plain;
  if (memory == nullptr) return kInvalidArgument;
  if (const int status = nvmlDeviceGetMemoryInfo(device, &plain)) return status;
  memory->total = plain.total;
  memory->reserved = static_cast<unsigned long long>(settings().gpu.reserved_memory);
  memory->free = plain.free;
  memory->used = plain.used - memory->reserved;
  return kSuccess;
}

SHADOW_API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = toolkit_version();
  return kSuccess;
}
SHADOW_API int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
SHADOW_API int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  if (text == nullptr) return kInvalidArgument;
  std::snprintf(text, bytes, "%s", kDriverVersion);
  return kSuccess;
}

// Processes with a context on the device. The first form lacks the two instances of a partitioned GPU.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used;
};
struct NvmlProcess3 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
template <typename T>
int running_processes(void* device, unsigned* count, T* processes) {
  const int number = device_of_handle(device);
  if (number < 0 || count == nullptr) return kInvalidArgument;
  const unsigned room = processes != nullptr ? *count : 0;
  *count = 0;
  for (const ProcessCounters& process : session_counters().processes) {
    const ProcessDeviceCounters& there = process.devices[number];
    if (process.pid == 0 || there.context == 0) continue;
    if (*count < room) {
      T entry{};
      entry.pid = static_cast<unsigned>(process.pid);
      entry.used = static_cast<unsigned long long>(there.used + there.context);
      if constexpr (requires { entry.gpu_instance; }) entry.gpu_instance = entry.compute_instance = ~0U;  // none
      processes[*count] = entry;
    }
    ++*count;
  }
  return *count <= room ? kSuccess : kInsufficientSize;
}
SHADOW_API int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, NvmlProcess* processes) {
  return running_processes(device, count, processes);
}
SHADOW_API int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, NvmlProcess3* processes) {
  return running_processes(device, count, processes);
}

// nvmlGpuFabricInfo_v2_t: the caller's version, then 28 bytes whose zeros say "no fabric".
SHADOW_API int nvmlDeviceGetGpuFabricInfoV(void*, char* info) {
  if (info == nullptr) return kInvalidArgument;
  std::memset(info + sizeof(unsigned), 0, 28);
  return kSuccess;
}

// nvmlGpuP2PCapsIndex_t: 2 asks for NVLink; nvmlGpuP2PStatus_t: 0 OK, 5 not supported.
SHADOW_API int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, int* status) {
  if (device_of_handle(one) < 0 || device_of_handle(other) < 0 || status == nullptr) return kInvalidArgument;
  *status = capability == 2 && !settings().gpu.nvlink ? 5 : 0;
  return kSuccess;
}

// What a GPU would measure, and links between GPUs.
#define NOT_SUPPORTED(name) \
  SHADOW_API int name() { return kNotSupported; }
NOT_SUPPORTED(nvmlDeviceGetUtilizationRates)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetNvLinkCapability)
#undef NOT_SUPPORTED

}  // namespace gpuplan::shadow
