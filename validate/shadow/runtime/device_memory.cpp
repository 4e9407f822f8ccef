// cudaMalloc's accounting: what every process of the session holds on every device.
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/device.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

// The driver serves small requests out of 2 MiB pages, 512 bytes apart at least; PyTorch asks for whole pages only.
constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr std::size_t kAlignment = 512;

struct Page {
  std::uintptr_t base;
  std::size_t filled;
  int blocks;
};

struct Memory {
  std::mutex mutex;
  std::map<int, Page> open_page;                             // by device: where the next small block goes
  std::unordered_map<std::uintptr_t, Page> full_pages;       // by base
  std::unordered_map<std::uintptr_t, std::uintptr_t> small;  // small block -> its page
};

Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t value) {
  std::int64_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value)) {
  }
}

// What all processes have on a device now. A context comes into being with a process's first use of the device.
DeviceMoment now_on(int card) {
  counters().devices[card].context.store(settings().context_bytes, std::memory_order_relaxed);
  DeviceMoment now;
  for (const ProcessCounters& process : session_counters().processes) {
    if (process.pid.load(std::memory_order_relaxed) == 0) break;
    const std::int64_t context = process.devices[card].context.load(std::memory_order_relaxed);
    now.bytes += process.devices[card].used.load(std::memory_order_relaxed) + context;
    now.contexts += context > 0 ? 1 : 0;
  }
  return now;
}

// What ended without a word has nothing there any more, though its counters say otherwise.
void note_if_fullest(int card) {
  std::atomic<std::int64_t>& fullest = session_counters().fullest[card];
  DeviceMoment now = now_on(card);
  if (word_of(now) <= fullest.load(std::memory_order_relaxed)) return;
  if (now.contexts > 1 && reclaim_dead_processes()) now = now_on(card);
  raise_to(fullest, word_of(now));
}

bool refuse(ProcessCounters& process, std::int64_t bytes, std::int64_t free) {
  process.refused_bytes = bytes;
  process.refused_free_bytes = std::max<std::int64_t>(free, 0);
  ++process.refusals;
  return false;
}

// Charged and then looked at again, so that two processes never share the last bytes. Where both took them at the same
// time, both take it back and try again, at most so often.
bool try_to_charge(int device, std::int64_t bytes) {
  constexpr int kAttempts = 100;
  ProcessCounters& process = counters();
  const int card = physical_device(device);
  const std::int64_t total = settings().gpu.total_global_mem;
  ProcessDeviceCounters& mine = process.devices[card];
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::int64_t free = total - now_on(card).bytes;
    if (bytes > free) return refuse(process, bytes, free);
    const std::int64_t now = mine.used.fetch_add(bytes) + bytes;
    if (now_on(card).bytes <= total) {
      ++mine.allocations;
      raise_to(mine.peak, now);
      note_if_fullest(card);
      return true;
    }
    mine.used.fetch_sub(bytes);
    std::this_thread::yield();
  }
  return refuse(process, bytes, total - now_on(card).bytes);
}

void* allocate_pages(int device, std::size_t bytes) {
  if (!charge_device(device, static_cast<std::int64_t>(bytes))) return nullptr;
  const std::uintptr_t base = place_memory(device, bytes);
  if (base == 0) discharge_device(device, static_cast<std::int64_t>(bytes));
  return reinterpret_cast<void*>(base);
}

void free_pages(const DeviceRange& range) {
  release_addresses(range.base);
  if (!range.managed) discharge_device(range.device, static_cast<std::int64_t>(range.bytes));
}

void* allocate_small(int device, std::size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto open = m.open_page.find(device);
  if (open != m.open_page.end() && open->second.filled + bytes > kGranularity) {
    m.full_pages.emplace(open->second.base, open->second);
    m.open_page.erase(open);
  }
  if (!m.open_page.contains(device)) {
    void* const page = allocate_pages(device, kGranularity);
    if (page == nullptr) return nullptr;
    m.open_page.emplace(device, Page{reinterpret_cast<std::uintptr_t>(page), 0, 0});
  }
  Page& page = m.open_page.at(device);
  const std::uintptr_t block = page.base + page.filled;
  page.filled += bytes;
  ++page.blocks;
  m.small.emplace(block, page.base);
  return reinterpret_cast<void*>(block);
}

// The open page stays: the next small block goes there.
bool free_small(std::uintptr_t block) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto found = m.small.find(block);
  if (found == m.small.end()) return false;
  const std::uintptr_t base = found->second;
  m.small.erase(found);
  if (const auto full = m.full_pages.find(base); full != m.full_pages.end()) {
    if (--full->second.blocks == 0) {
      m.full_pages.erase(full);
      free_pages(range_of(reinterpret_cast<void*>(base)));
    }
    return true;
  }
  for (auto& [device, page] : m.open_page) {
    if (page.base == base) --page.blocks;
  }
  return true;
}

}  // namespace

bool charge_device(int device, std::int64_t bytes) {
  if (try_to_charge(device, bytes)) return true;
  return reclaim_dead_processes() && try_to_charge(device, bytes);
}

void discharge_device(int device, std::int64_t bytes) { counters().devices[physical_device(device)].used -= bytes; }

std::int64_t free_bytes(int device) {
  const int card = physical_device(device);
  DeviceMoment now = now_on(card);
  if (now.contexts > 1 && reclaim_dead_processes()) now = now_on(card);
  return std::max<std::int64_t>(settings().gpu.total_global_mem - now.bytes, 0);
}

void* allocate_device(int device, std::size_t bytes) {
  constexpr auto kMost = static_cast<std::size_t>(INT64_MAX) - kGranularity;  // no device has it, and it can be counted
  bytes = std::min(bytes, kMost);
  if (bytes < kSmall) return allocate_small(device, round_up(bytes, kAlignment));
  return allocate_pages(device, round_up(bytes, kGranularity));
}

bool free_device(void* pointer) {
  if (free_small(reinterpret_cast<std::uintptr_t>(pointer))) return true;
  const DeviceRange range = range_of(pointer);
  if (range.device < 0 || range.base != reinterpret_cast<std::uintptr_t>(pointer)) return false;
  const std::lock_guard lock(memory().mutex);
  if (memory().full_pages.contains(range.base)) return false;
  for (const auto& [device, page] : memory().open_page) {
    if (page.base == range.base) return false;
  }
  free_pages(range);
  return true;
}

int device_of(const void* pointer) { return range_of(pointer).device; }

SHADOW_API std::int64_t gpuplan_shadow_used_bytes(int device) {
  return counters().devices[physical_device(device)].used;
}
SHADOW_API std::int64_t gpuplan_shadow_peak_bytes(int device) {
  return counters().devices[physical_device(device)].peak;
}

}  // namespace gpuplan::shadow
