// cudaMallocAsync and its pools. The driver does not say how its pools grow; here one grows by whole 32 MiB and shrinks
// at a synchronisation or a trim down to its release threshold: assumed, and noted so.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

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
  bool destroyed = false;  // by the program, while blocks of it are in use
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
  std::map<MemoryPool*, std::unique_ptr<MemoryPool>> created;
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

// With the mutex held, as the next.
bool exists(MemoryPool* pool) {
  if (const auto created = pools().created.find(pool); created != pools().created.end()) return !pool->destroyed;
  return std::ranges::any_of(pools().of_device, [&](const auto& standard) { return &standard.second == pool; });
}

void remove(MemoryPool* pool) {
  discharge_device(pool->device, pool->reserved);
  pools().created.erase(pool);
}

cudaError_t allocate(MemoryPool& pool, void** pointer, std::size_t bytes) {
  note_unknown("cudaMallocAsync: the driver's pool is assumed to grow by 32 MiB");
  constexpr std::size_t kMost = std::size_t{1} << 62;  // no device has it, and it can be counted
  const std::size_t wanted = std::min(bytes, kMost);
  const auto rounded = static_cast<std::int64_t>(round_up(wanted, 512));
  if (!grow(pool, pool.used + rounded)) return fail(cudaErrorMemoryAllocation);
  const std::uintptr_t base = reserve_addresses(pool.device, round_up(wanted, kGranularity));
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
  for (auto& [pool, owned] : pools().created) shrink(*pool, pool->release_threshold);
}

SHADOW_API cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, MemoryPool* pool, Stream* stream) {
  if (pointer == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  enqueue(stream, 0);
  const std::lock_guard lock(pools().mutex);
  if (!exists(pool)) return fail(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
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
      MemoryPool* const pool = block->second.pool;
      pool->used -= block->second.bytes;
      pools().blocks.erase(block);
      release_addresses(reinterpret_cast<std::uintptr_t>(pointer));
      if (pool->destroyed && pool->used == 0) remove(pool);
      return cudaSuccess;
    }
  }
  return free_device(pointer) ? cudaSuccess : fail(cudaErrorInvalidValue);
}

SHADOW_API cudaError_t cudaDeviceGetDefaultMemPool(MemoryPool** pool, int device) {
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  const std::lock_guard lock(pools().mutex);
  *pool = &default_pool(device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceGetMemPool(MemoryPool** pool, int device) {
  if (pool == nullptr) return fail(cudaErrorInvalidValue);
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  const std::lock_guard lock(pools().mutex);
  *pool = &current_pool(device);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaDeviceSetMemPool(int device, MemoryPool* pool) {
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  const std::lock_guard lock(pools().mutex);
  if (!exists(pool)) return fail(cudaErrorInvalidValue);
  pools().current[device] = pool;
  return cudaSuccess;
}

// cudaMemPoolProps' beginning, the same in 12 and 13.
struct PoolProperties {
  int allocation_type;  // 1: pinned
  int handle_types;     // requested for sharing
  int location_type;    // 1: device
  int location_id;
};

SHADOW_API cudaError_t cudaMemPoolCreate(MemoryPool** pool, const PoolProperties* properties) {
  if (pool == nullptr || properties == nullptr) return fail(cudaErrorInvalidValue);
  constexpr int kOnDevice = 1;  // cudaMemLocationTypeDevice
  if (properties->location_type != kOnDevice) return fail(cudaErrorNotSupported);
  const int device = properties->location_id;
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  auto created = std::make_unique<MemoryPool>(MemoryPool{.device = device});
  const std::lock_guard lock(pools().mutex);
  *pool = created.get();
  pools().created.emplace(*pool, std::move(created));
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemPoolDestroy(MemoryPool* pool) {
  const std::lock_guard lock(pools().mutex);
  if (!pools().created.contains(pool) || pool->destroyed) return fail(cudaErrorInvalidValue);  // or the default pool
  std::erase_if(pools().current, [&](const auto& chosen) { return chosen.second == pool; });
  pool->destroyed = true;
  shrink(*pool, 0);
  if (pool->used == 0) remove(pool);  // else with its last block
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
  if (value == nullptr) return fail(cudaErrorInvalidValue);
  *static_cast<std::uint64_t*>(value) = 0;
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaDeviceSetGraphMemAttribute(int, int, void*) { return cudaSuccess; }
SHADOW_API cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }

}  // namespace gpuplan::shadow
