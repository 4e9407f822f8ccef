// NVML, as far as PyTorch, pynvml and monitoring callbacks ask: the GPUs of the session and the memory used on them.
#include <cstdio>
#include <cstring>

#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7;

// NVML numbers all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says. A handle is the number plus one.
void* handle_of(unsigned device) { return reinterpret_cast<void*>(std::uintptr_t{device} + 1); }
int device_of_handle(const void* handle) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1; }

std::int64_t used_on(int device) {
  std::int64_t used = 0;
  for (const ProcessCounters& process : session_counters().processes)
    used += process.devices[device].used + process.devices[device].context;
  return used;
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
    default: return "Unknown Error";
  }
}

SHADOW_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(settings().devices);
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

SHADOW_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= static_cast<unsigned>(settings().devices)) return kInvalidArgument;
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
  *index = static_cast<unsigned>(device_of_handle(device));
  return kSuccess;
}

SHADOW_API int nvmlDeviceGetName(void*, char* name, unsigned bytes) {
  if (bytes <= settings().gpu.name.size()) return kInsufficientSize;
  std::strcpy(name, settings().gpu.name.c_str());
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  const int written = std::snprintf(text, bytes, "GPU-00000000-0000-0000-0000-%012d", device_of_handle(device));
  return written < static_cast<int>(bytes) ? kSuccess : kInsufficientSize;
}
SHADOW_API int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = settings().gpu.major;
  *minor = settings().gpu.minor;
  return kSuccess;
}

struct NvmlMemory {
  unsigned long long total, free, used;
};
SHADOW_API int nvmlDeviceGetMemoryInfo(void* device, NvmlMemory* memory) {
  memory->total = static_cast<unsigned long long>(settings().gpu.total_global_mem);
  memory->used = static_cast<unsigned long long>(used_on(device_of_handle(device)));
  memory->free = memory->total - memory->used;
  return kSuccess;
}
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
SHADOW_API int nvmlDeviceGetMemoryInfo_v2(void* device, NvmlMemory2* memory) {
  NvmlMemory plain;
  nvmlDeviceGetMemoryInfo(device, &plain);
  memory->total = plain.total;
  memory->reserved = 0;
  memory->free = plain.free;
  memory->used = plain.used;
  return kSuccess;
}

SHADOW_API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = toolkit_version();
  return kSuccess;
}
SHADOW_API int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
SHADOW_API int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "shadow");
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
SHADOW_API int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}

// nvmlGpuFabricInfo_v2_t: the caller's version, then 28 bytes whose zeros say "no fabric".
SHADOW_API int nvmlDeviceGetGpuFabricInfoV(void*, char* info) {
  std::memset(info + sizeof(unsigned), 0, 28);
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
NOT_SUPPORTED(nvmlDeviceGetP2PStatus)
#undef NOT_SUPPORTED

}  // namespace gpuplan::shadow
