// What nvcc's host code calls: registration of kernels and variables, launches, attributes, occupancy.
#include "validate/shadow/runtime/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "validate/shadow/runtime/cubin.h"
#include "validate/shadow/runtime/data_dependent.h"
#include "validate/shadow/runtime/fat_binary.h"
#include "validate/shadow/runtime/launch_arguments.h"
#include "validate/shadow/runtime/occupancy.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Kernel {
  const char* name;        // lives as long as the library that registered it
  const void* fat_binary;  // as __cudaRegisterFatBinary was given it; null for a module loaded at run time
  const KernelResources* known = nullptr;  // once they have been read
  std::vector<Writes> writes;              // by parameter, once it was launched
};

using Resources = std::unordered_map<std::string, KernelResources>;  // of an image's kernels

struct Program {
  std::mutex mutex;
  std::unordered_map<const void*, Kernel> kernels;
  std::unordered_set<void**> handles;                 // of fat binaries that are registered
  std::unordered_map<const void*, Resources> images;  // by fat binary, read when first asked for
  std::vector<Resources> gone;                        // of libraries unloaded; a launch may still look at them
  std::unordered_map<const void*, std::size_t> dynamic_shared;  // the most that a kernel was allowed, where it was set
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

// The code that a wheel has for this GPU: PyTorch's has 8.6 for 8.9.
int code_version() {
  const GpuDescription& gpu = settings().gpu;
  return gpu.major == 8 && gpu.minor == 9 ? 86 : gpu.major * 10 + gpu.minor;
}

// With the mutex held; null where the kernel's image cannot be read.
const KernelResources* find_resources(const void* function) {
  Program& p = program();
  const auto kernel = p.kernels.find(function);
  if (kernel == p.kernels.end()) return nullptr;
  if (kernel->second.known != nullptr || kernel->second.fat_binary == nullptr) return kernel->second.known;
  auto image = p.images.find(kernel->second.fat_binary);
  if (image == p.images.end()) {
    const GpuDescription& gpu = settings().gpu;
    Resources resources = read_cubin(cubin_for(kernel->second.fat_binary, gpu.major, gpu.minor));
    image = p.images.emplace(kernel->second.fat_binary, std::move(resources)).first;
  }
  const auto found = image->second.find(kernel->second.name);
  if (found != image->second.end()) kernel->second.known = &found->second;
  return kernel->second.known;
}

// With the mutex held, of a kernel that has resources.
const std::vector<Writes>& find_writes(const void* function, const KernelResources& resources) {
  Kernel& kernel = program().kernels.find(function)->second;
  if (kernel.writes.size() != resources.parameters.size()) {
    kernel.writes = writes_of(kernel.name, resources.parameters.size());
  }
  return kernel.writes;
}

// A kernel takes more than 48 KiB of dynamic shared memory only once it was allowed to ("Programming guide", 7.0 on).
// What its registers and static shared memory leave is checked where its image could be read. With the mutex held.
cudaError_t check_resources(const void* function, const KernelResources* resources, std::uint64_t threads,
                            std::size_t shared) {
  constexpr std::size_t kUnasked = std::size_t{48} << 10;
  const Program& p = program();
  const auto allowed = p.dynamic_shared.find(function);
  if (shared > (allowed != p.dynamic_shared.end() ? allowed->second : kUnasked)) return cudaErrorInvalidValue;
  if (resources == nullptr) return cudaSuccess;
  if (threads > static_cast<std::uint64_t>(largest_block(*resources))) return cudaErrorLaunchOutOfResources;
  const auto most = static_cast<std::size_t>(settings().gpu.shared_mem_per_block_optin);
  return resources->static_shared + shared > most ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

std::string kernel_name(const void* function) {
  const std::lock_guard lock(program().mutex);
  const auto found = program().kernels.find(function);
  return found != program().kernels.end() ? found->second.name : "?";
}

const void* register_kernel(const std::string& name, const KernelResources* resources) {
  using Key = std::pair<std::string, const KernelResources*>;  // modules may call different kernels the same
  static auto* const handles = new std::set<Key>;
  const std::lock_guard lock(program().mutex);
  const Key& key = *handles->emplace(name, resources).first;
  program().kernels.try_emplace(&key, Kernel{key.first.c_str(), nullptr, resources, {}});
  return &key;
}

cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                          Stream* stream) {
  if (function == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool grid_fits =
      grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= 2147483647U && grid.y <= 65535U && grid.z <= 65535U;
  const bool block_fits = threads >= 1 && threads <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64;
  if (!grid_fits || !block_fits) return fail(cudaErrorInvalidConfiguration);
  const KernelResources* resources = nullptr;
  const std::vector<Writes>* writes = nullptr;
  {
    const std::lock_guard lock(program().mutex);
    resources = find_resources(function);
    const cudaError_t error = check_resources(function, resources, threads, shared);
    if (error != cudaSuccess) return fail(error);
    if (resources != nullptr) writes = &find_writes(function, *resources);
  }
  note_data_dependent(function);
  std::optional<std::span<const std::uintptr_t>> touched;
  if (writes != nullptr && arguments != nullptr) touched = written_addresses(*resources, *writes, arguments);
  if (!recording_launches()) {
    count_launch(stream, "", "", touched);
    return cudaSuccess;
  }
  char configuration[160];
  std::snprintf(configuration, sizeof configuration, "grid %u,%u,%u block %u,%u,%u shared %zu arguments ", grid.x,
                grid.y, grid.z, block.x, block.y, block.z, shared);
  const std::string text = configuration + (resources != nullptr ? describe_arguments(*resources, arguments) : "?");
  count_launch(stream, kernel_name(function).c_str(), text.c_str(), touched);
  return cudaSuccess;
}

void describe_kernel(const void* function, cudaFuncAttributes& attributes) {
  std::memset(&attributes, 0, sizeof attributes);
  attributes.maxThreadsPerBlock = 1024;
  attributes.numRegs = 32;
  attributes.ptxVersion = attributes.binaryVersion = code_version();
  attributes.maxDynamicSharedSizeBytes = settings().gpu.shared_mem_per_block_optin;
  const std::lock_guard lock(program().mutex);
  if (const KernelResources* const resources = find_resources(function)) {
    attributes.maxThreadsPerBlock = largest_block(*resources);
    attributes.numRegs = resources->registers;
    attributes.sharedSizeBytes = resources->static_shared;
    attributes.localSizeBytes = resources->local;
  }
}

bool set_attribute(const void* function, int attribute, int value) {
  // CUfunction_attribute of CUDA 13.2. Of a later one (17, oversized shared memory) a program learns here that there is
  // none, and asks as before.
  constexpr int kMaxDynamicSharedMemorySize = 8, kEnd = 16;
  if (attribute != kMaxDynamicSharedMemorySize) return attribute > kMaxDynamicSharedMemorySize && attribute < kEnd;
  if (value < 0 || value > settings().gpu.shared_mem_per_block_optin) return false;
  const std::lock_guard lock(program().mutex);
  program().dynamic_shared[function] = static_cast<std::size_t>(value);
  return true;
}

int resident_blocks(const void* function, int block_threads, std::size_t dynamic_shared) {
  const std::lock_guard lock(program().mutex);
  const KernelResources* const resources = find_resources(function);
  KernelResources assumed;
  assumed.registers = 32;
  return std::max(
      1, resident_blocks(resources != nullptr ? *resources : assumed, settings().gpu, block_threads, dynamic_shared));
}

// --- registration --------------------------------------------------------------------------------------------------

SHADOW_API void** __cudaRegisterFatBinary(void* binary) {
  // A handle of its own for each: nothing is loaded, but programs compare handles.
  const auto handle = new void*(binary);
  const std::lock_guard lock(program().mutex);
  program().handles.insert(handle);
  return handle;
}
SHADOW_API void __cudaRegisterFatBinaryEnd(void**) {}
// Another library's may come to lie at the same address. What has been registered twice (linked_runtime.h) is taken
// back twice, by its last handle.
SHADOW_API void __cudaUnregisterFatBinary(void** handle) {
  const std::lock_guard lock(program().mutex);
  if (program().handles.erase(handle) == 0) return;
  const auto image = program().images.find(*handle);
  if (image != program().images.end()) {
    program().gone.push_back(std::move(image->second));
    program().images.erase(image);
  }
  delete handle;
}
SHADOW_API char __cudaInitModule(void**) { return 1; }

SHADOW_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*, void*,
                                       void*, void*, int*) {
  const std::lock_guard lock(program().mutex);
  program().kernels[host] = Kernel{name, handle != nullptr ? *handle : nullptr, nullptr, {}};
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

SHADOW_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, Stream* stream) {
  return launch_kernel(function, grid, block, arguments, shared, stream);
}
SHADOW_API cudaError_t __cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                          std::size_t shared, Stream* stream) {
  return launch_kernel(kernel, grid, block, arguments, shared, stream);
}
SHADOW_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                                   std::size_t shared, Stream* stream) {
  return launch_kernel(function, grid, block, arguments, shared, stream);
}
SHADOW_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr) return fail(cudaErrorInvalidValue);
  return launch_kernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                       config->stream);
}

// --- attributes and occupancy --------------------------------------------------------------------------------------

SHADOW_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return fail(cudaErrorInvalidValue);
  describe_kernel(function, *attributes);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return set_attribute(function, attribute, value) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
SHADOW_API cudaError_t cudaKernelSetAttributeForDevice(const void* kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
SHADOW_API cudaError_t cudaFuncSetCacheConfig(const void*, int) { return cudaSuccess; }
SHADOW_API cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const std::lock_guard lock(program().mutex);
  const auto found = program().kernels.find(function);
  if (found == program().kernels.end()) return fail(cudaErrorInvalidDeviceFunction);
  *name = found->second.name;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                              int threads, std::size_t shared,
                                                                              unsigned) {
  if (blocks == nullptr) return fail(cudaErrorInvalidValue);
  *blocks = resident_blocks(function, threads, shared);
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

}  // namespace gpuplan::shadow
