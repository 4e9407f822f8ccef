// What nvcc's host code calls: registration of kernels and variables, launches, attributes, occupancy.
#include "validate/shadow/runtime/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Variable {
  const char* name;
  std::size_t bytes;
  std::uintptr_t address;  // 0 until it is asked for
};

struct Program {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> kernels;  // names live as long as the library that registered them
  std::unordered_map<const void*, Variable> variables;
};

Program& program() {
  static auto* const instance = new Program;
  return *instance;
}

struct Call {
  dim3 grid, block;
  std::size_t shared;
  Stream* stream;
};
thread_local std::vector<Call> calls;  // <<<...>>> configurations under way

// Variables of a module are part of the context's bytes, not of what cudaMalloc hands out: nothing is charged.
Variable* find_variable(const void* symbol) {
  const auto found = program().variables.find(symbol);
  if (found == program().variables.end()) return nullptr;
  Variable& variable = found->second;
  if (variable.address == 0)
    variable.address = reserve_addresses(0, round_up(std::max<std::size_t>(variable.bytes, 1), kGranularity));
  return &variable;
}

// The code that a wheel has for this GPU: PyTorch's has 8.6 for 8.9.
int code_version() {
  const GpuDescription& gpu = settings().gpu;
  return gpu.major == 8 && gpu.minor == 9 ? 86 : gpu.major * 10 + gpu.minor;
}

}  // namespace

std::string kernel_name(const void* function) {
  const std::lock_guard lock(program().mutex);
  const auto found = program().kernels.find(function);
  return found != program().kernels.end() ? found->second : "?";
}

const void* register_kernel(const std::string& name) {
  const std::lock_guard lock(program().mutex);
  for (const auto& [handle, known] : program().kernels) {
    if (handle == known && known == name) return handle;  // its own name is such a kernel's handle
  }
  const char* const kept = strdup(name.c_str());
  program().kernels.emplace(kept, kept);
  return kept;
}

cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, std::size_t shared, Stream* stream) {
  if (function == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool grid_fits =
      grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= 2147483647U && grid.y <= 65535U && grid.z <= 65535U;
  const bool block_fits = threads >= 1 && threads <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64;
  if (!grid_fits || !block_fits) return fail(cudaErrorInvalidConfiguration);
  if (shared > static_cast<std::size_t>(settings().gpu.shared_mem_per_block_optin)) return fail(cudaErrorInvalidValue);
  if (!recording_launches()) {
    count_launch(stream, "", "");
    return cudaSuccess;
  }
  char configuration[160];
  std::snprintf(configuration, sizeof configuration, "grid %u,%u,%u block %u,%u,%u shared %zu", grid.x, grid.y, grid.z,
                block.x, block.y, block.z, shared);
  count_launch(stream, kernel_name(function).c_str(), configuration);
  return cudaSuccess;
}

void describe_kernel(cudaFuncAttributes& attributes) {
  std::memset(&attributes, 0, sizeof attributes);
  attributes.maxThreadsPerBlock = 1024;
  attributes.numRegs = 32;
  attributes.ptxVersion = attributes.binaryVersion = code_version();
  attributes.maxDynamicSharedSizeBytes = settings().gpu.shared_mem_per_block_optin;
}

int resident_blocks(int block_threads, std::size_t shared) {
  const GpuDescription& gpu = settings().gpu;
  int blocks =
      std::min(gpu.max_threads_per_multi_processor / std::max(block_threads, 1), gpu.max_blocks_per_multi_processor);
  if (shared != 0) {
    // 1 KiB of each block's shared memory is the system's since compute capability 8.0.
    const auto by_shared =
        static_cast<int>(static_cast<std::size_t>(gpu.shared_mem_per_multiprocessor) / (shared + 1024));
    blocks = std::min(blocks, by_shared);
  }
  return std::max(blocks, 1);
}

// --- registration --------------------------------------------------------------------------------------------------

SHADOW_API void** __cudaRegisterFatBinary(void* binary) {
  // A handle of its own for each: nothing is loaded, but programs compare handles.
  return new void*(binary);
}
SHADOW_API void __cudaRegisterFatBinaryEnd(void**) {}
SHADOW_API void __cudaUnregisterFatBinary(void** handle) { delete handle; }
SHADOW_API char __cudaInitModule(void**) { return 1; }

SHADOW_API void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*,
                                       void*, int*) {
  const std::lock_guard lock(program().mutex);
  program().kernels[host] = name;
}

SHADOW_API void __cudaRegisterVar(void**, char* host, char*, const char* name, int, std::size_t bytes, int, int) {
  const std::lock_guard lock(program().mutex);
  program().variables[host] = Variable{name, bytes, 0};
}
SHADOW_API void __cudaRegisterManagedVar(void**, void** host, char*, const char* name, int, std::size_t bytes, int,
                                         int) {
  const std::lock_guard lock(program().mutex);
  Variable variable{name, bytes, reserve_addresses(0, round_up(std::max<std::size_t>(bytes, 1), kGranularity), true)};
  *host = reinterpret_cast<void*>(variable.address);
  program().variables[host] = variable;
}
SHADOW_API void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
SHADOW_API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) {}
SHADOW_API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) {}

// --- launches ------------------------------------------------------------------------------------------------------

SHADOW_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, Stream* stream) {
  calls.push_back({grid, block, shared, stream});
  return 0;
}

SHADOW_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (calls.empty()) return fail(cudaErrorInvalidConfiguration);
  const Call call = calls.back();
  calls.pop_back();
  *grid = call.grid;
  *block = call.block;
  *shared = call.shared;
  *static_cast<Stream**>(stream) = call.stream;
  return cudaSuccess;
}

// A kernel's handle is its host stub, so that both forms of launch name the same.
SHADOW_API cudaError_t __cudaGetKernel(const void** kernel, const void* function) {
  *kernel = function;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaGetKernel(const void** kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}
SHADOW_API cudaError_t cudaGetFuncBySymbol(const void** function, const void* symbol) {
  return __cudaGetKernel(function, symbol);
}

SHADOW_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**, std::size_t shared,
                                        Stream* stream) {
  return launch_kernel(function, grid, block, shared, stream);
}
SHADOW_API cudaError_t __cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void**, std::size_t shared,
                                          Stream* stream) {
  return launch_kernel(kernel, grid, block, shared, stream);
}
SHADOW_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**,
                                                   std::size_t shared, Stream* stream) {
  return launch_kernel(function, grid, block, shared, stream);
}
SHADOW_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  if (config == nullptr) return fail(cudaErrorInvalidValue);
  return launch_kernel(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
}

// --- attributes and occupancy --------------------------------------------------------------------------------------

SHADOW_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  if (attributes == nullptr) return fail(cudaErrorInvalidValue);
  describe_kernel(*attributes);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaFuncSetAttribute(const void*, int attribute, int value) {
  constexpr int kMaxDynamicSharedMemorySize = 8;
  if (attribute == kMaxDynamicSharedMemorySize && value > settings().gpu.shared_mem_per_block_optin) {
    return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaKernelSetAttributeForDevice(const void* kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
SHADOW_API cudaError_t cudaFuncSetCacheConfig(const void*, int) { return cudaSuccess; }
SHADOW_API cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const std::lock_guard lock(program().mutex);
  const auto found = program().kernels.find(function);
  if (found == program().kernels.end()) return fail(cudaErrorInvalidDeviceFunction);
  *name = found->second;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                              std::size_t shared, unsigned) {
  if (blocks == nullptr) return fail(cudaErrorInvalidValue);
  *blocks = resident_blocks(threads, shared);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                                     std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
SHADOW_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  *clusters = settings().gpu.multi_processor_count;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void*, const cudaLaunchConfig_t*) {
  *size = 8;  // the portable size
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void*, int, int) {
  *bytes = static_cast<std::size_t>(settings().gpu.shared_mem_per_block_optin);
  return cudaSuccess;
}

// --- variables -----------------------------------------------------------------------------------------------------

SHADOW_API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  *address = reinterpret_cast<void*>(variable->address);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  *bytes = variable->bytes;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
                                          int) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  if (offset > variable->bytes || bytes > variable->bytes - offset) return fail(cudaErrorInvalidValue);
  copy_memory(reinterpret_cast<void*>(variable->address + offset), source, bytes);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t bytes,
                                               std::size_t offset, int kind, Stream*) {
  return cudaMemcpyToSymbol(symbol, source, bytes, offset, kind);
}
SHADOW_API cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, std::size_t bytes,
                                            std::size_t offset, int) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  if (offset > variable->bytes || bytes > variable->bytes - offset) return fail(cudaErrorInvalidValue);
  copy_memory(destination, reinterpret_cast<const void*>(variable->address + offset), bytes);
  return cudaSuccess;
}

}  // namespace gpuplan::shadow
