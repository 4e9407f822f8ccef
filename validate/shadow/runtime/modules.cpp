// Code loaded at run time: cudaLibrary, cuLibrary, cuModule and what is launched out of them. Where it is a cubin (as
// Triton's) or has one for this GPU, its kernels are known; otherwise every name is found. A variable gets memory of an
// assumed 1 MiB.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/fat_binary.h"
#include "validate/shadow/runtime/kernels.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

using Resources = std::unordered_map<std::string, KernelResources>;

struct Module {
  std::mutex mutex;
  std::map<std::string, std::uintptr_t> globals;
  const Resources* kernels = nullptr;  // kept for good, as kernels' handles are; empty where the code cannot be read
};

constexpr std::size_t kGlobalBytes = std::size_t{1} << 20;

int make(Module** module, Resources kernels) {
  *module = new Module;
  (*module)->kernels = new Resources(std::move(kernels));
  return cudaSuccess;
}

int load(Module** module, const void* code) {
  if (module == nullptr || code == nullptr) return cudaErrorInvalidValue;
  const GpuDescription& gpu = settings().gpu;
  return make(module, read_cubin(cubin_for(code, gpu.major, gpu.minor)));
}

int load_file(Module** module, const char* path) {
  if (module == nullptr || path == nullptr) return cudaErrorInvalidValue;
  constexpr int kFileNotFound = 301;  // CUDA_ERROR_FILE_NOT_FOUND, cudaErrorFileNotFound
  std::ifstream file(path, std::ios::binary);
  if (!file) return kFileNotFound;
  const std::string code(std::istreambuf_iterator<char>(file), {});
  return make(module, read_cubin(std::as_bytes(std::span(code))));  // nothing of a file that is no cubin
}

int unload(Module* module) {
  if (module == nullptr) return cudaErrorInvalidValue;
  for (const auto& [name, address] : module->globals) release_addresses(address);
  delete module;
  return cudaSuccess;
}

int find_kernel(const void** kernel, const Module* module, const char* name) {
  if (kernel == nullptr || module == nullptr || name == nullptr) return cudaErrorInvalidValue;
  const auto found = module->kernels->find(name);
  if (found == module->kernels->end() && !module->kernels->empty()) return cudaErrorSymbolNotFound;
  *kernel = register_kernel(name, found != module->kernels->end() ? &found->second : nullptr);
  return cudaSuccess;
}

int find_global(std::uintptr_t* address, std::size_t* bytes, Module* module, const char* name) {
  if (module == nullptr || name == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(module->mutex);
  std::uintptr_t& known = module->globals[name];
  if (known == 0) known = reserve_addresses(current_device(), round_up(kGlobalBytes, kGranularity));
  if (known == 0) return cudaErrorMemoryAllocation;
  note_unknown("variables of modules loaded at run time: each is taken to have 1 MiB, which is not counted");
  if (address != nullptr) *address = known;
  if (bytes != nullptr) *bytes = kGlobalBytes;
  return cudaSuccess;
}

cudaError_t of_runtime(int error) { return error == cudaSuccess ? cudaSuccess : fail(static_cast<cudaError_t>(error)); }

// CUfunction_attribute: 0 threads a block, 1 static shared bytes, 3 local bytes a thread, 4 registers, 5 and 6 PTX and
// binary version, 8 dynamic shared bytes at most.
int attribute_of(int* value, int attribute, const void* kernel) {
  cudaFuncAttributes all;
  describe_kernel(kernel, all);
  switch (attribute) {
    case 0: *value = all.maxThreadsPerBlock; break;
    case 1: *value = static_cast<int>(all.sharedSizeBytes); break;
    case 3: *value = static_cast<int>(all.localSizeBytes); break;
    case 4: *value = all.numRegs; break;
    case 5: *value = all.ptxVersion; break;
    case 6: *value = all.binaryVersion; break;
    case 8: *value = all.maxDynamicSharedSizeBytes; break;
    default: *value = 0;
  }
  return cudaSuccess;
}

}  // namespace

SHADOW_API int cuModuleLoad(Module** module, const char* path) { return load_file(module, path); }
SHADOW_API int cuModuleLoadData(Module** module, const void* image) { return load(module, image); }
SHADOW_API int cuModuleLoadDataEx(Module** module, const void* image, unsigned, void*, void*) {
  return load(module, image);
}
SHADOW_API int cuModuleLoadFatBinary(Module** module, const void* image) { return load(module, image); }
SHADOW_API int cuModuleUnload(Module* module) { return unload(module); }
SHADOW_API int cuModuleGetFunction(const void** kernel, const Module* module, const char* name) {
  return find_kernel(kernel, module, name);
}
SHADOW_API int cuModuleGetGlobal_v2(std::uintptr_t* address, std::size_t* bytes, Module* module, const char* name) {
  return find_global(address, bytes, module, name);
}
SHADOW_API int cuModuleGetLoadingMode(int* mode) {
  *mode = 2;  // CU_MODULE_LAZY_LOADING
  return cudaSuccess;
}

SHADOW_API int cuLibraryLoadData(Module** module, const void* code) { return load(module, code); }
SHADOW_API int cuLibraryLoadFromFile(Module** module, const char* path) { return load_file(module, path); }
SHADOW_API int cuLibraryUnload(Module* module) { return unload(module); }
SHADOW_API int cuLibraryGetKernel(const void** kernel, const Module* module, const char* name) {
  return find_kernel(kernel, module, name);
}
SHADOW_API int cuLibraryGetModule(Module** module, Module* library) {
  *module = library;
  return cudaSuccess;
}
SHADOW_API int cuLibraryGetGlobal(std::uintptr_t* address, std::size_t* bytes, Module* module, const char* name) {
  return find_global(address, bytes, module, name);
}
SHADOW_API int cuKernelGetFunction(const void** function, const void* kernel) {
  *function = kernel;
  return cudaSuccess;
}
SHADOW_API int cuKernelGetAttribute(int* value, int attribute, const void* kernel, int) {
  return attribute_of(value, attribute, kernel);
}
SHADOW_API int cuKernelSetAttribute(int attribute, int value, const void* kernel, int) {
  return set_attribute(kernel, attribute, value) ? cudaSuccess : cudaErrorInvalidValue;
}

SHADOW_API cudaError_t cudaLibraryLoadData(Module** module, const void* code) { return of_runtime(load(module, code)); }
SHADOW_API cudaError_t cudaLibraryLoadFromFile(Module** module, const char* path) {
  return of_runtime(load_file(module, path));
}
SHADOW_API cudaError_t cudaLibraryUnload(Module* module) { return of_runtime(unload(module)); }
SHADOW_API cudaError_t cudaLibraryGetKernel(const void** kernel, const Module* module, const char* name) {
  return of_runtime(find_kernel(kernel, module, name));
}
SHADOW_API cudaError_t cudaLibraryGetGlobal(std::uintptr_t* address, std::size_t* bytes, Module* module,
                                            const char* name) {
  return of_runtime(find_global(address, bytes, module, name));
}
SHADOW_API cudaError_t cudaLibraryGetManaged(std::uintptr_t*, std::size_t*, Module*, const char*) {
  return fail(cudaErrorSymbolNotFound);
}
SHADOW_API cudaError_t cudaLibraryGetUnifiedFunction(void**, Module*, const char*) {
  return fail(cudaErrorSymbolNotFound);
}
SHADOW_API cudaError_t cudaLibraryGetKernelCount(unsigned* count, const Module* module) {
  *count = static_cast<unsigned>(module->kernels->size());
  return cudaSuccess;
}

SHADOW_API int cuLaunchKernel(const void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, Stream* stream, void** arguments,
                              void**) {
  return launch_kernel(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments, shared, stream);
}
SHADOW_API int cuLaunchCooperativeKernel(const void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                         Stream* stream, void** arguments) {
  return launch_kernel(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments, shared, stream);
}

// CUlaunchAttribute: what it is of, then 64 bytes, aligned to 8.
struct LaunchAttribute {
  alignas(8) int id;
  alignas(8) unsigned value[16];
};
// CUlaunchConfig: grid and block (three words each), shared bytes, stream.
struct LaunchConfig {
  dim3 grid, block;
  unsigned shared;
  Stream* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
SHADOW_API int cuLaunchKernelEx(const LaunchConfig* config, const void* function, void** arguments, void**) {
  if (config == nullptr) return cudaErrorInvalidValue;
  return launch_kernel(function, config->grid, config->block, arguments, config->shared, config->stream);
}

SHADOW_API int cuFuncGetAttribute(int* value, int attribute, const void* kernel) {
  return attribute_of(value, attribute, kernel);
}
SHADOW_API int cuFuncSetAttribute(const void* function, int attribute, int value) {
  return set_attribute(function, attribute, value) ? cudaSuccess : cudaErrorInvalidValue;
}
SHADOW_API int cuFuncSetCacheConfig(const void*, int) { return cudaSuccess; }
SHADOW_API int cuFuncSetSharedMemConfig(const void*, int) { return cudaSuccess; }
SHADOW_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                           std::size_t shared) {
  *blocks = resident_blocks(kernel, threads, shared);
  return cudaSuccess;
}
// As if any multiprocessors could form a cluster: on a GPU, those of one processing cluster only.
SHADOW_API int cuOccupancyMaxActiveClusters(int* clusters, const void* kernel, const LaunchConfig* config) {
  constexpr int kClusterDimension = 4;
  if (clusters == nullptr || config == nullptr) return cudaErrorInvalidValue;
  unsigned size = 1;
  for (unsigned i = 0; config->attributes != nullptr && i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == kClusterDimension) size = attribute.value[0] * attribute.value[1] * attribute.value[2];
  }
  const int threads = static_cast<int>(config->block.x * config->block.y * config->block.z);
  const int blocks = resident_blocks(kernel, threads, config->shared) * settings().gpu.multi_processor_count;
  *clusters = blocks / static_cast<int>(std::max(size, 1U));
  return cudaSuccess;
}
SHADOW_API int cuOccupancyMaxPotentialClusterSize(int* size, const void*, const void*) {
  *size = 8;
  return cudaSuccess;
}

// Linking and tensor maps: the objects are opaque and nobody reads them here.
SHADOW_API int cuLinkCreate_v2(unsigned, void*, void*, void** state) {
  *state = new char;
  return cudaSuccess;
}
SHADOW_API int cuLinkAddData_v2(void*, int, void*, std::size_t, const char*, unsigned, void*, void*) {
  return cudaSuccess;
}
SHADOW_API int cuLinkAddFile_v2(void*, int, const char*, unsigned, void*, void*) { return cudaSuccess; }
// Their older names, for cuDNN, as in driver_context.cpp.
SHADOW_API int cuLinkCreate(unsigned count, void* options, void* values, void** state) {
  return cuLinkCreate_v2(count, options, values, state);
}
SHADOW_API int cuLinkAddData(void* state, int type, void* data, std::size_t size, const char* name, unsigned count,
                             void* options, void* values) {
  return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}
SHADOW_API int cuLinkComplete(void* state, void** cubin, std::size_t* bytes) {
  *cubin = state;
  *bytes = 1;
  return cudaSuccess;
}
SHADOW_API int cuLinkDestroy(void* state) {
  delete static_cast<char*>(state);
  return cudaSuccess;
}
SHADOW_API int cuTensorMapEncodeTiled() { return cudaSuccess; }
SHADOW_API int cuTensorMapEncodeIm2col() { return cudaSuccess; }

}  // namespace gpuplan::shadow
