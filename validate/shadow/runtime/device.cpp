// Devices: how many, which one is current, what they are.
#include "validate/shadow/runtime/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/device_properties.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

// CUDA programming guide, appendix on environment variables: numbers separated by commas; the first that is not one of
// a device (or comes twice) ends the list, and an empty value hides all. Devices' UUIDs are accepted as we name them.
std::vector<int> read_visible(const char* variable, int devices) {
  std::vector<int> visible;
  if (variable == nullptr) {
    for (int i = 0; i < devices; ++i) visible.push_back(i);
    return visible;
  }
  std::string_view rest = variable;
  while (!rest.empty()) {
    const std::string token(rest.substr(0, rest.find(',')));
    char* end = nullptr;
    const long number = std::strtol(token.c_str(), &end, 10);
    if (end == token.c_str() || *end != 0 || number < 0 || number >= devices) break;
    if (std::find(visible.begin(), visible.end(), number) != visible.end()) return {};
    visible.push_back(static_cast<int>(number));
    if (token.size() >= rest.size()) break;
    rest.remove_prefix(token.size() + 1);
  }
  return visible;
}

const std::vector<int>& visible() {
  static const auto* const devices = new std::vector<int>(
      read_visible(std::getenv("CUDA_VISIBLE_DEVICES"), std::clamp(settings().devices, 1, kMaxDevices)));
  return *devices;
}

thread_local int current = 0;

// The fields that both layouts have; the rest stays zero.
template <typename Properties>
void describe(Properties& p, int device) {
  const GpuDescription& gpu = settings().gpu;
  std::memset(&p, 0, sizeof p);
  std::snprintf(p.name, sizeof p.name, "%s", gpu.name.c_str());
  std::snprintf(p.uuid, sizeof p.uuid, "shadow GPU %d", physical_device(device));
  p.totalGlobalMem = static_cast<std::size_t>(gpu.total_global_mem);
  p.sharedMemPerBlock = 49152;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = gpu.major;
  p.minor = gpu.minor;
  p.textureAlignment = p.surfaceAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = gpu.multi_processor_count;
  p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
  p.pciBusID = physical_device(device) + 1;
  p.asyncEngineCount = 3;
  p.memoryBusWidth = gpu.memory_bus_width;
  p.l2CacheSize = static_cast<int>(gpu.l2_cache_size);
  p.persistingL2CacheMaxSize = p.l2CacheSize / 2;
  p.maxThreadsPerMultiProcessor = gpu.max_threads_per_multi_processor;
  p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = p.managedMemory = 1;
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(gpu.shared_mem_per_multiprocessor);
  p.computePreemptionSupported = p.cooperativeLaunch = p.hostRegisterSupported = p.memoryPoolsSupported = 1;
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(gpu.shared_mem_per_block_optin);
  p.maxBlocksPerMultiProcessor = gpu.max_blocks_per_multi_processor;
  p.reservedSharedMemPerBlock = static_cast<std::size_t>(gpu.reserved_shared_mem_per_block);
  p.clusterLaunch = gpu.major >= 9 ? 1 : 0;
}

bool exists(int device) { return device >= 0 && device < visible_devices(); }

// cudaDeviceAttr by its number; attributes of features that a shadow lacks are 0.
int attribute(int number, int device) {
  DevicePropertiesOf12 p;
  describe(p, device);
  const GpuDescription& gpu = settings().gpu;
  switch (number) {
    case 1: return p.maxThreadsPerBlock;
    case 2: return p.maxThreadsDim[0];
    case 3: return p.maxThreadsDim[1];
    case 4: return p.maxThreadsDim[2];
    case 5: return p.maxGridSize[0];
    case 6: return p.maxGridSize[1];
    case 7: return p.maxGridSize[2];
    case 8: return static_cast<int>(p.sharedMemPerBlock);
    case 9: return static_cast<int>(p.totalConstMem);
    case 10: return p.warpSize;
    case 11: return static_cast<int>(p.memPitch);
    case 12: return p.regsPerBlock;
    case 13: return gpu.clock_rate;
    case 14: return static_cast<int>(p.textureAlignment);
    case 16: return p.multiProcessorCount;
    case 19: return p.canMapHostMemory;
    case 31: return p.concurrentKernels;
    case 32: return p.ECCEnabled;
    case 33: return p.pciBusID;
    case 36: return gpu.memory_clock_rate;
    case 37: return p.memoryBusWidth;
    case 38: return p.l2CacheSize;
    case 39: return p.maxThreadsPerMultiProcessor;
    case 40: return p.asyncEngineCount;
    case 41: return p.unifiedAddressing;
    case 75: return p.major;
    case 76: return p.minor;
    case 78: return p.streamPrioritiesSupported;
    case 79: return p.globalL1CacheSupported;
    case 80: return p.localL1CacheSupported;
    case 81: return static_cast<int>(p.sharedMemPerMultiprocessor);
    case 82: return p.regsPerMultiprocessor;
    case 83: return p.managedMemory;
    case 90: return p.computePreemptionSupported;
    case 95: return p.cooperativeLaunch;
    case 97: return static_cast<int>(p.sharedMemPerBlockOptin);
    case 99: return p.hostRegisterSupported;
    case 106: return p.maxBlocksPerMultiProcessor;
    case 108: return p.persistingL2CacheMaxSize;
    case 111: return static_cast<int>(p.reservedSharedMemPerBlock);
    case 115: return p.memoryPoolsSupported;
    case 120: return p.clusterLaunch;
    case 102: return 1;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: the driver's numbers go on here
    default: return 0;
  }
}

}  // namespace

int visible_devices() { return static_cast<int>(visible().size()); }
int physical_device(int device) { return exists(device) ? visible()[static_cast<std::size_t>(device)] : 0; }
int current_device() { return current; }
bool set_current_device(int device) {
  if (exists(device)) current = device;
  return exists(device);
}

SHADOW_API cudaError_t cudaGetDeviceCount(int* count) {
  check_loaded_libraries();
  if (count == nullptr) return fail(cudaErrorInvalidValue);
  *count = visible_devices();
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

SHADOW_API cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return fail(cudaErrorInvalidValue);
  *device = current;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaSetDevice(int device) {
  return set_current_device(device) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
SHADOW_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return exists(device) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
SHADOW_API cudaError_t cudaGetDeviceProperties_v2(void* properties, int device) {
  if (properties == nullptr) return fail(cudaErrorInvalidValue);
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  DevicePropertiesOf12& p = *static_cast<DevicePropertiesOf12*>(properties);
  describe(p, device);
  p.clockRate = settings().gpu.clock_rate;
  p.memoryClockRate = settings().gpu.memory_clock_rate;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGetDeviceProperties(void* properties, int device) {
  if (properties == nullptr) return fail(cudaErrorInvalidValue);
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  describe(*static_cast<DevicePropertiesOf13*>(properties), device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceGetAttribute(int* value, int number, int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  if (value == nullptr) return fail(cudaErrorInvalidValue);
  *value = attribute(number, device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return fail(cudaErrorInvalidValue);
  *version = toolkit_version();  // a driver exactly as new as the toolkit
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

SHADOW_API cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  if (text == nullptr || bytes < 13) return fail(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", physical_device(device) + 1);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0, bus = 0;
  if (device == nullptr || text == nullptr || std::sscanf(text, "%x:%x", &domain, &bus) != 2)
    return fail(cudaErrorInvalidValue);
  for (*device = 0; *device < visible_devices(); ++*device) {
    if (physical_device(*device) + 1 == static_cast<int>(bus)) return cudaSuccess;
  }
  return fail(cudaErrorInvalidDevice);
}

}  // namespace gpuplan::shadow
