#include "validate/shadow/runtime/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "estimator/allocator/driver_addresses.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

// 32 TiB of the 128 TiB that a process has: expandable segments reserve more than a card for each stream and pool.
constexpr std::size_t kSpaceBytes = std::size_t{1} << 45;
constexpr std::size_t kWindow = std::size_t{32} << 20;  // DriverAddresses' bounds are multiples of it

struct Range {
  std::size_t bytes;
  int device;
  bool managed;
};

struct Space {
  std::mutex mutex;
  std::uintptr_t begin = 0, end = 0;
  std::map<int, DriverAddresses> of_device;
  std::uintptr_t next = 0;  // without Settings::driver_segments: where the search for room goes on
  std::map<std::uintptr_t, Range> ranges;
};

Space* make_space() {
  auto* const space = new Space;
  for (std::size_t bytes = kSpaceBytes; bytes >= std::size_t{1} << 38;
       bytes /= 2) {  // a limit (ulimit -v) may forbid it
    void* const memory =
        mmap(nullptr, bytes + kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, bytes + kWindow, MADV_DONTDUMP);
    madvise(memory, bytes + kWindow, MADV_NOHUGEPAGE);  // a scalar's copy must not take 2 MiB
    space->begin = round_up(reinterpret_cast<std::uintptr_t>(memory), kWindow);
    space->end = space->begin + bytes;
    space->next = space->begin;
    break;
  }
  if (space->begin == 0) note_unknown("no address space for device memory: is there a limit (ulimit -v)?");
  return space;
}

Space& space() {
  static Space* const instance = make_space();  // never destroyed: freed into after static destructors
  return *instance;
}

// Each device's part of the space.
DriverAddresses& part_of(Space& s, int device) {
  const auto known = s.of_device.find(device);
  if (known != s.of_device.end()) return known->second;
  const int devices = std::clamp(settings().devices, 1, kMaxDevices);
  const std::uintptr_t bytes = (s.end - s.begin) / static_cast<std::uintptr_t>(devices) / kWindow * kWindow;
  const std::uintptr_t from = s.begin + static_cast<std::uintptr_t>(std::clamp(device, 0, devices - 1)) * bytes;
  return s.of_device.emplace(device, DriverAddresses(from + bytes, from)).first->second;
}

// The first room of `bytes` at or above `from`, with a gap of a page to the neighbours.
std::uintptr_t find_room(const Space& s, std::uintptr_t from, std::size_t bytes) {
  std::uintptr_t candidate = from;
  auto range = s.ranges.upper_bound(candidate);
  if (range != s.ranges.begin()) {
    const auto before = std::prev(range);
    candidate = std::max(candidate, before->first + before->second.bytes + kGranularity);
  }
  while (candidate + bytes <= s.end) {
    if (range == s.ranges.end() || candidate + bytes + kGranularity <= range->first) return candidate;
    candidate = range->first + range->second.bytes + kGranularity;
    ++range;
  }
  return 0;
}

// Upwards; used again only once the whole space has been gone through.
std::uintptr_t rising_address(Space& s, std::size_t bytes) {
  std::uintptr_t base = find_room(s, s.next, bytes);
  if (base == 0) base = find_room(s, s.begin, bytes);
  if (base != 0) s.next = base + bytes;
  return base;
}

std::uintptr_t hand_out(int device, std::size_t bytes, bool managed,
                        std::uint64_t (DriverAddresses::*place)(std::int64_t)) {
  Space& s = space();
  const std::lock_guard lock(s.mutex);
  if (s.begin == 0 || bytes == 0 || bytes > s.end - s.begin) return 0;
  const std::uintptr_t base = settings().driver_segments ? (part_of(s, device).*place)(static_cast<std::int64_t>(bytes))
                                                         : rising_address(s, bytes);
  if (base != 0) s.ranges.emplace(base, Range{bytes, device, managed});
  return base;
}

}  // namespace

std::uintptr_t reserve_addresses(int device, std::size_t bytes, bool managed) {
  return hand_out(device, bytes, managed, &DriverAddresses::place_alone);
}

std::uintptr_t place_memory(int device, std::size_t bytes) {
  return hand_out(device, bytes, false, &DriverAddresses::place);
}

bool release_addresses(std::uintptr_t base) {
  Space& s = space();
  const std::lock_guard lock(s.mutex);
  const auto range = s.ranges.find(base);
  if (range == s.ranges.end()) return false;
  forget_written(reinterpret_cast<void*>(base), range->second.bytes);
  madvise(reinterpret_cast<void*>(base), range->second.bytes, MADV_DONTNEED);
  if (settings().driver_segments)
    part_of(s, range->second.device).release(base, static_cast<std::int64_t>(range->second.bytes));
  s.ranges.erase(range);
  return true;
}

bool in_address_space(std::uintptr_t address) {
  const Space& s = space();
  return address >= s.begin && address < s.end;  // which never change
}

DeviceRange range_of(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (!in_address_space(at)) return {};
  Space& s = space();
  const std::lock_guard lock(s.mutex);
  auto range = s.ranges.upper_bound(at);
  if (range == s.ranges.begin()) return {};
  --range;
  if (at >= range->first + range->second.bytes) return {};
  return {range->first, range->second.bytes, range->second.device, range->second.managed};
}

}  // namespace gpuplan::shadow
