// The driver API: initialisation, devices, contexts, streams and events, which are the runtime's own objects.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/copies.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

extern "C" {
gpuplan::shadow::cudaError_t cudaDeviceEnablePeerAccess(int, unsigned);
gpuplan::shadow::cudaError_t cudaDeviceGetAttribute(int*, int, int);
gpuplan::shadow::cudaError_t cudaDeviceGetLimit(std::size_t*, int);
gpuplan::shadow::cudaError_t cudaDeviceSetLimit(int, std::size_t);
gpuplan::shadow::cudaError_t cudaDeviceGetPCIBusId(char*, int, int);
gpuplan::shadow::cudaError_t cudaEventCreateWithFlags(void**, unsigned);
gpuplan::shadow::cudaError_t cudaEventDestroy(void*);
gpuplan::shadow::cudaError_t cudaEventQuery(void*);
gpuplan::shadow::cudaError_t cudaEventRecord(void*, void*);
gpuplan::shadow::cudaError_t cudaEventSynchronize(void*);
gpuplan::shadow::cudaError_t cudaStreamCreateWithPriority(void**, unsigned, int);
gpuplan::shadow::cudaError_t cudaLaunchHostFunc(gpuplan::shadow::Stream*, void (*)(void*), void*);
gpuplan::shadow::cudaError_t cudaStreamDestroy(void*);
gpuplan::shadow::cudaError_t cudaStreamIsCapturing(void*, int*);
gpuplan::shadow::cudaError_t cudaStreamQuery(void*);
gpuplan::shadow::cudaError_t cudaStreamWaitEvent(void*, void*, unsigned);
}

namespace gpuplan::shadow {
namespace {

// A device's primary context is the only one; its handle is the address of its number.
int contexts[kMaxDevices];
thread_local std::vector<int> pushed_over;  // the devices that cuCtxPushCurrent made wait

constexpr int kInvalidContext = 201;  // CUDA_ERROR_INVALID_CONTEXT

void* context_of(int device) { return &contexts[device]; }

bool exists(int device) { return device >= 0 && device < visible_devices(); }

// The device of a context's handle; -1 where it is none.
int device_of_context(const int* context) {
  const int* const end = contexts + visible_devices();
  return std::less_equal<>()(contexts + 0, context) && std::less<>()(context, end)
             ? static_cast<int>(context - contexts)
             : -1;
}

template <typename T>
int answer(T* out, T value) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = value;
  return cudaSuccess;
}

// Our own functions by name, newest form first: cuMemAlloc is found as cuMemAlloc_v2.
void* find_function(const char* name) {
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&find_function), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  for (const char* suffix : {"_v3", "_v2", ""}) {
    if (void* const found = dlsym(self != nullptr ? self : RTLD_DEFAULT, (std::string(name) + suffix).c_str()))
      return found;
  }
  return nullptr;
}

// CUdriverProcAddressQueryResult and cudaDriverEntryPointQueryResult: 0 found, 1 not found.
cudaError_t entry_point(const char* name, void** function, int* result) {
  if (name == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = find_function(name);
  if (result != nullptr) *result = *function != nullptr ? 0 : 1;
  return cudaSuccess;
}

}  // namespace

SHADOW_API int cuInit(unsigned) { return visible_devices() > 0 ? cudaSuccess : cudaErrorNoDevice; }
SHADOW_API int cuDriverGetVersion(int* version) { return answer(version, toolkit_version()); }

SHADOW_API int cuGetProcAddress(const char* name, void** function, int, std::uint64_t) {
  const cudaError_t error = entry_point(name, function, nullptr);
  return error == cudaSuccess && *function == nullptr ? cudaErrorSymbolNotFound : error;
}
SHADOW_API int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* result) {
  const cudaError_t error = entry_point(name, function, result);
  return error == cudaSuccess && *function == nullptr && result == nullptr ? cudaErrorSymbolNotFound : error;
}
SHADOW_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* result) {
  const cudaError_t error = entry_point(name, function, result);
  return error == cudaSuccess ? error : fail(error);
}
SHADOW_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                        int* result) {
  return cudaGetDriverEntryPoint(name, function, 0, result);
}

SHADOW_API int cuDeviceGetCount(int* count) { return answer(count, visible_devices()); }
SHADOW_API int cuDeviceGet(int* device, int ordinal) {
  return exists(ordinal) ? answer(device, ordinal) : cudaErrorInvalidDevice;
}
SHADOW_API int cuDeviceGetName(char* name, int bytes, int device) {
  if (!exists(device)) return cudaErrorInvalidDevice;
  if (name == nullptr || bytes <= 0) return cudaErrorInvalidValue;
  std::snprintf(name, static_cast<std::size_t>(bytes), "%s", settings().gpu.name.c_str());
  return cudaSuccess;
}
SHADOW_API int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  if (!exists(device)) return cudaErrorInvalidDevice;
  return answer(bytes, static_cast<std::size_t>(settings().gpu.total_global_mem));
}
SHADOW_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}
SHADOW_API int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  return cudaDeviceGetPCIBusId(text, bytes, device);
}
SHADOW_API int cuDeviceGetUuid_v2(char* uuid, int device) {
  if (!exists(device)) return cudaErrorInvalidDevice;
  if (uuid == nullptr) return cudaErrorInvalidValue;
  std::memset(uuid, 0, 16);
  std::snprintf(uuid, 16, "shadow GPU %d", physical_device(device));
  return cudaSuccess;
}
SHADOW_API int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return exists(device) && exists(peer) ? answer(can, device != peer ? 1 : 0) : cudaErrorInvalidDevice;
}

SHADOW_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  return exists(device) ? answer(context, context_of(device)) : cudaErrorInvalidDevice;
}
SHADOW_API int cuDevicePrimaryCtxRelease(int) { return cudaSuccess; }
SHADOW_API int cuDevicePrimaryCtxRelease_v2(int) { return cudaSuccess; }
SHADOW_API int cuDevicePrimaryCtxReset_v2(int device) { return exists(device) ? cudaSuccess : cudaErrorInvalidDevice; }
SHADOW_API int cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
SHADOW_API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (!exists(device)) return cudaErrorInvalidDevice;
  if (flags == nullptr || active == nullptr) return cudaErrorInvalidValue;
  *flags = 0;
  *active = counters().devices[physical_device(device)].peak > 0 ? 1 : 0;
  return cudaSuccess;
}
SHADOW_API int cuCtxGetCurrent(void** context) { return answer(context, context_of(current_device())); }
// Null unbinds: the next call binds the primary context again, which is here already.
SHADOW_API int cuCtxSetCurrent(const int* context) {
  return context == nullptr || set_current_device(device_of_context(context)) ? cudaSuccess : kInvalidContext;
}
SHADOW_API int cuCtxPushCurrent_v2(const int* context) {
  const int before = current_device();
  if (!set_current_device(device_of_context(context))) return kInvalidContext;
  pushed_over.push_back(before);
  return cudaSuccess;
}
SHADOW_API int cuCtxPopCurrent_v2(void** context) {
  if (pushed_over.empty()) return kInvalidContext;
  if (context != nullptr) *context = context_of(current_device());
  set_current_device(pushed_over.back());
  pushed_over.pop_back();
  return cudaSuccess;
}
// Under their names before CUDA 4.0 too: cuDNN goes without a driver where it lacks one, and picks other engines.
SHADOW_API int cuCtxPushCurrent(const int* context) { return cuCtxPushCurrent_v2(context); }
SHADOW_API int cuCtxPopCurrent(void** context) { return cuCtxPopCurrent_v2(context); }
SHADOW_API int cuCtxGetDevice(int* device) { return answer(device, current_device()); }
SHADOW_API int cuCtxSynchronize() { return wait_for_device(); }
SHADOW_API int cuCtxGetLimit(std::size_t* value, int limit) { return cudaDeviceGetLimit(value, limit); }
SHADOW_API int cuCtxSetLimit(int limit, std::size_t value) { return cudaDeviceSetLimit(limit, value); }
SHADOW_API int cuCtxEnablePeerAccess(const int* context, unsigned flags) {
  const int device = device_of_context(context);
  return device < 0 ? kInvalidContext : cudaDeviceEnablePeerAccess(device, flags);
}
SHADOW_API int cuCtxGetApiVersion(const void*, unsigned* version) {
  return answer(version, static_cast<unsigned>(toolkit_version()));
}
SHADOW_API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

SHADOW_API int cuStreamCreate(void** stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
SHADOW_API int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return cudaStreamCreateWithPriority(stream, flags, priority);
}
SHADOW_API int cuStreamDestroy_v2(void* stream) { return cudaStreamDestroy(stream); }
SHADOW_API int cuStreamSynchronize(Stream* stream) { return wait_for_stream(stream); }
SHADOW_API int cuLaunchHostFunc(Stream* stream, void (*function)(void*), void* argument) {
  return cudaLaunchHostFunc(stream, function, argument);
}
SHADOW_API int cuStreamQuery(void* stream) { return cudaStreamQuery(stream); }
SHADOW_API int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return cudaStreamWaitEvent(stream, event, flags);
}
SHADOW_API int cuStreamGetCtx(void*, void** context) { return cuCtxGetCurrent(context); }
SHADOW_API int cuStreamIsCapturing(void* stream, int* status) { return cudaStreamIsCapturing(stream, status); }
SHADOW_API int cuStreamWriteValue32_v2(Stream* stream, std::uint32_t* address, std::uint32_t value, unsigned) {
  if (address == nullptr) return cudaErrorInvalidValue;
  if (!enqueue(stream, 0)) fill_memory(address, value, 1);
  return cudaSuccess;
}
// The name of CUDA 11, which PyTorch up to 2.6 asks for before it can use expandable segments.
SHADOW_API int cuStreamWriteValue32(Stream* stream, std::uint32_t* address, std::uint32_t value, unsigned flags) {
  return cuStreamWriteValue32_v2(stream, address, value, flags);
}
SHADOW_API int cuStreamWaitValue32_v2(Stream*, std::uint32_t*, std::uint32_t, unsigned) { return cudaSuccess; }
SHADOW_API int cuEventCreate(void** event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }
SHADOW_API int cuEventDestroy_v2(void* event) { return cudaEventDestroy(event); }
SHADOW_API int cuEventRecord(void* event, void* stream) { return cudaEventRecord(event, stream); }
SHADOW_API int cuEventQuery(void* event) { return cudaEventQuery(event); }
SHADOW_API int cuEventSynchronize(void* event) { return cudaEventSynchronize(event); }

// Parts of a GPU, and objects that span several: a shadow GPU is whole and alone.
#define REFUSE(name)                                       \
  SHADOW_API int name() {                                  \
    note_unknown(#name ": not supported by a shadow GPU"); \
    return cudaErrorNotSupported;                          \
  }
REFUSE(cuCtxFromGreenCtx)
REFUSE(cuDevResourceGenerateDesc)
REFUSE(cuDevSmResourceSplitByCount)
REFUSE(cuDeviceGetDevResource)
REFUSE(cuGreenCtxCreate)
REFUSE(cuGreenCtxDestroy)
REFUSE(cuGreenCtxStreamCreate)
REFUSE(cuMulticastCreate)
REFUSE(cuMulticastAddDevice)
REFUSE(cuMulticastBindMem)
REFUSE(cuMulticastUnbind)
#undef REFUSE
SHADOW_API int cuLogsRegisterCallback(void*, void*, void** handle) {
  if (handle != nullptr) *handle = contexts;
  return cudaSuccess;
}
SHADOW_API int cuLogsUnregisterCallback(void*) { return cudaSuccess; }

}  // namespace gpuplan::shadow
