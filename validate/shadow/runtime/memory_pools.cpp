// cudaMallocAsync and its pools. The driver does not say how its pools grow; here one grows by whole 32 MiB and shrinks
// at a synchronisation or a trim down to its release threshold: assumed, and noted so.
#include <algorithm>
#include <map>
#include <mutex>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/memory_pools.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

namespace gpuplan::shadow {

struct MemoryPool {
  int device = 0;
  std::int64_t reserved = 0, reserved_high = 0;
  std::int64_t used = 0, used_high = 0;
  std::uint64_t release_threshold = 0;
};

namespace {

constexpr std::int64_t kStep = std::int64_t{32} << 20;

struct Block {
  MemoryPool* pool;
  std::int64_t bytes;
};

struct Pools {
  std::mutex mutex;
  std::map<int, MemoryPool> of_device;  // the default ones
  std::map<int, MemoryPool*> current;
  std::map<std::uintptr_t, Block> blocks;
};

Pools& pools() {
  static auto* const instance = new Pools;
  return *instance;
}

MemoryPool& default_pool(int device) {
  MemoryPool& pool = pools().of_device[device];
  pool.device = device;
  return pool;
}

MemoryPool& current_pool(int device) {
  const auto chosen = pools().current.find(device);
  return chosen != pools().current.end() ? *chosen->second : default_pool(device);
}

bool grow(MemoryPool& pool, std::int64_t used) {
  const std::int64_t wanted = (used + kStep - 1) / kStep * kStep;
  if (wanted > pool.reserved) {
    if (!charge_device(pool.device, wanted - pool.reserved)) return false;
    pool.reserved = wanted;
  }
  pool.used = used;
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return true;
}

void shrink(MemoryPool& pool, std::uint64_t keep) {
  const std::int64_t least = (pool.used + kStep - 1) / kStep * kStep;
  const std::int64_t target = keep > static_cast<std::uint64_t>(pool.reserved)
                                  ? pool.reserved
                                  : std::max<std::int64_t>(least, static_cast<std::int64_t>(keep));
  if (target >= pool.reserved) return;
  discharge_device(pool.device, pool.reserved - target);
  pool.reserved = target;
}

cudaError_t allocate(MemoryPool& pool, void** pointer, std::size_t bytes) {
  note_unknown("cudaMallocAsync: the driver's pool is assumed to grow by 32 MiB");
  const std::int64_t rounded = static_cast<std::int64_t>(round_up(bytes, 512));
  if (bytes > static_cast<std::size_t>(settings().gpu.total_global_mem) || !grow(pool, pool.used + rounded)) {
    return fail(cudaErrorMemoryAllocation);
  }
  const std::uintptr_t base = reserve_addresses(pool.device, round_up(bytes, kGranularity));
  if (base == 0) {
    pool.used -= rounded;
    return fail(cudaErrorMemoryAllocation);
  }
  pools().blocks.emplace(base, Block{&pool, rounded});
  *pointer = reinterpret_cast<void*>(base);
  return cudaSuccess;
}

}  // namespace

void trim_memory_pools() {
  const std::lock_guard lock(pools().mutex);
  for (auto& [device, pool] : pools().of_device) shrink(pool, pool.release_threshold);
}

SHADOW_API cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, MemoryPool* pool, Stream* stream) {
  if (pointer == nullptr || pool == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  enqueue(stream, 0);
  const std::lock_guard lock(pools().mutex);
  return allocate(*pool, pointer, bytes);
}

SHADOW_API cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, Stream* stream) {
  MemoryPool* pool = nullptr;
  {
    const std::lock_guard lock(pools().mutex);
    pool = &current_pool(current_device());
  }
  return cudaMallocFromPoolAsync(pointer, bytes, pool, stream);
}

SHADOW_API cudaError_t cudaFreeAsync(void* pointer, Stream* stream) {
  if (pointer == nullptr) return cudaSuccess;
  enqueue(stream, 0);
  {
    const std::lock_guard lock(pools().mutex);
    const auto block = pools().blocks.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (block != pools().blocks.end()) {
      block->second.pool->used -= block->second.bytes;
      pools().blocks.erase(block);
      release_addresses(reinterpret_cast<std::uintptr_t>(pointer));
      return cudaSuccess;
    }
  }
  return free_device(pointer) ? cudaSuccess : fail(cudaErrorInvalidValue);
}

SHADOW_API cudaError_t cudaDeviceGetDefaultMemPool(MemoryPool** pool, int device) {
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  const std::lock_guard lock(pools().mutex);
  *pool = &default_pool(device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceGetMemPool(MemoryPool** pool, int device) {
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  const std::lock_guard lock(pools().mutex);
  *pool = &current_pool(device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceSetMemPool(int device, MemoryPool* pool) {
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(pools().mutex);
  pools().current[device] = pool;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolCreate(MemoryPool** pool, const void*) {
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  *pool = new MemoryPool{.device = current_device()};
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolDestroy(MemoryPool* pool) {
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(pools().mutex);
  for (const auto& [device, standard] : pools().of_device) {
    if (&standard == pool) return fail(cudaErrorInvalidValue);  // the default pool cannot be destroyed
  }
  std::erase_if(pools().current, [&](const auto& chosen) { return chosen.second == pool; });
  discharge_device(pool->device, pool->reserved);
  std::erase_if(pools().blocks, [&](const auto& block) { return block.second.pool == pool; });
  delete pool;
  return cudaSuccess;
}

// cudaMemPoolAttr: 1-3 reuse policies (int), 4 release threshold, 5-8 reserved and used bytes, now and highest (64
// bits).
SHADOW_API cudaError_t cudaMemPoolGetAttribute(MemoryPool* pool, int attribute, void* value) {
  if (pool == nullptr || value == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(pools().mutex);
  std::int64_t& number = *static_cast<std::int64_t*>(value);
  switch (attribute) {
    case 1:
    case 2:
    case 3: *static_cast<int*>(value) = 1; break;
    case 4: *static_cast<std::uint64_t*>(value) = pool->release_threshold; break;
    case 5: number = pool->reserved; break;
    case 6: number = pool->reserved_high; break;
    case 7: number = pool->used; break;
    case 8: number = pool->used_high; break;
    default: return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolSetAttribute(MemoryPool* pool, int attribute, void* value) {
  if (pool == nullptr || value == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(pools().mutex);
  switch (attribute) {
    case 1:
    case 2:
    case 3: break;
    case 4: pool->release_threshold = *static_cast<std::uint64_t*>(value); break;
    case 6: pool->reserved_high = pool->reserved; break;
    case 8: pool->used_high = pool->used; break;
    default: return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolTrimTo(MemoryPool* pool, std::size_t keep) {
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  const std::lock_guard lock(pools().mutex);
  shrink(*pool, keep);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolSetAccess(MemoryPool* pool, const void*, std::size_t) {
  return pool != nullptr ? cudaSuccess : fail(cudaErrorInvalidValue);
}

SHADOW_API cudaError_t cudaDeviceGetGraphMemAttribute(int, int, void* value) {
  *static_cast<std::uint64_t*>(value) = 0;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceSetGraphMemAttribute(int, int, void*) { return cudaSuccess; }
SHADOW_API cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }

}  // namespace gpuplan::shadow
