// cudaMalloc, cudaMemcpy, cudaMemset and their relatives.
#include <array>
#include <cstdint>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/copies.h"
#include "validate/shadow/runtime/host_memory.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

namespace gpuplan::shadow {
namespace {

// What a captured copy writes at when its graph runs. A copy that runs at once says more, in copies.cpp.
std::array<std::uintptr_t, 1> address_of(const void* address) { return {reinterpret_cast<std::uintptr_t>(address)}; }

// A copy on a stream; `rows` of `width` bytes. During a capture it becomes a node and moves nothing.
cudaError_t copy(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                 std::size_t width, std::size_t rows, int kind, Stream* stream) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return fail(cudaErrorInvalidMemcpyDirection);
  if (width == 0 || rows == 0) return cudaSuccess;
  if (destination == nullptr || source == nullptr) return fail(cudaErrorInvalidValue);
  if (width > destination_pitch || width > source_pitch) return fail(cudaErrorInvalidValue);
  if (enqueue(stream, 0, address_of(destination))) return cudaSuccess;
  const bool fits = copy_rows(destination, destination_pitch, source, source_pitch, width, rows);
  return fits ? cudaSuccess : fail(cudaErrorInvalidValue);
}

cudaError_t copy(void* destination, const void* source, std::size_t bytes, int kind, Stream* stream) {
  return copy(destination, bytes, source, bytes, bytes, 1, kind, stream);
}

// `rows` of `width` bytes.
cudaError_t set(void* address, std::size_t pitch, int value, std::size_t width, std::size_t rows, Stream* stream) {
  if (width == 0 || rows == 0) return cudaSuccess;
  if (address == nullptr || width > pitch) return fail(cudaErrorInvalidValue);
  if (enqueue(stream, 0, address_of(address))) return cudaSuccess;
  for (std::size_t row = 0; row < rows; ++row) {
    fill_memory(static_cast<char*>(address) + row * pitch, static_cast<std::uint8_t>(value), width);
  }
  return cudaSuccess;
}

}  // namespace

SHADOW_API cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  check_loaded_libraries();
  *pointer = allocate_device(current_device(), bytes);
  return *pointer != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

SHADOW_API cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  if (pitch == nullptr) return fail(cudaErrorInvalidValue);
  constexpr std::size_t kPitch = 512;
  std::size_t bytes = 0;
  if (width > SIZE_MAX - kPitch || __builtin_mul_overflow(round_up(width, kPitch), height, &bytes)) {
    return fail(cudaErrorMemoryAllocation);
  }
  *pitch = round_up(width, kPitch);
  return cudaMalloc(pointer, bytes);
}

SHADOW_API cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return fail(cudaErrorInvalidValue);
  if (bytes > SIZE_MAX - kGranularity) return fail(cudaErrorMemoryAllocation);
  note_unknown("managed memory: it moves between host and device as it is touched; none of it is counted");
  *pointer = reinterpret_cast<void*>(reserve_addresses(current_device(), round_up(bytes, kGranularity), true));
  return *pointer != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
SHADOW_API cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, int, Stream*) { return cudaSuccess; }
SHADOW_API cudaError_t cudaMemAdvise(const void*, std::size_t, int, int) { return cudaSuccess; }

SHADOW_API cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr || free_device(pointer)) return cudaSuccess;
  return fail(cudaErrorInvalidValue);
}

SHADOW_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return fail(cudaErrorInvalidValue);
  *total = static_cast<std::size_t>(settings().gpu.total_global_mem);
  *free = static_cast<std::size_t>(free_bytes(current_device()));
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, int kind,
                                       Stream* stream) {
  return copy(destination, source, bytes, kind, stream);
}
SHADOW_API cudaError_t cudaMemcpyPeerAsync(void* destination, int, const void* source, int, std::size_t bytes,
                                           Stream* stream) {
  return copy(destination, source, bytes, cudaMemcpyDefault, stream);
}
SHADOW_API cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, const void* source,
                                         std::size_t source_pitch, std::size_t width, std::size_t height, int kind,
                                         Stream* stream) {
  return copy(destination, destination_pitch, source, source_pitch, width, height, kind, stream);
}

// The host waits for these: they are on the legacy stream, after everything before them.
SHADOW_API cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes, int kind) {
  if (const cudaError_t error = wait_for_stream(nullptr); error != cudaSuccess) return error;
  return copy(destination, source, bytes, kind, nullptr);
}
SHADOW_API cudaError_t cudaMemcpyPeer(void* destination, int, const void* source, int, std::size_t bytes) {
  return cudaMemcpy(destination, source, bytes, cudaMemcpyDefault);
}
SHADOW_API cudaError_t cudaMemcpy2D(void* destination, std::size_t destination_pitch, const void* source,
                                    std::size_t source_pitch, std::size_t width, std::size_t height, int kind) {
  if (const cudaError_t error = wait_for_stream(nullptr); error != cudaSuccess) return error;
  return copy(destination, destination_pitch, source, source_pitch, width, height, kind, nullptr);
}

SHADOW_API cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  return set(address, bytes, value, bytes, 1, nullptr);
}
SHADOW_API cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, Stream* stream) {
  return set(address, bytes, value, bytes, 1, stream);
}
SHADOW_API cudaError_t cudaMemset2DAsync(void* address, std::size_t pitch, int value, std::size_t width,
                                         std::size_t height, Stream* stream) {
  return set(address, pitch, value, width, height, stream);
}

SHADOW_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return fail(cudaErrorInvalidValue);
  *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, const_cast<void*>(pointer)};
  const DeviceRange range = range_of(pointer);
  if (range.device >= 0) {
    attributes->type = range.managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
    attributes->device = range.device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = range.managed ? const_cast<void*>(pointer) : nullptr;
  } else if (const int device = device_of_pinned(pointer); device >= 0) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = device;
    attributes->devicePointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

}  // namespace gpuplan::shadow
