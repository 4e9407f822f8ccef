// What lived when on one device, as a snapshot's events tell it. Blocks are followed where they landed, whatever policy
// put them there: sizes are those that PyTorch charged, splits and rest included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

constexpr std::uint32_t kBeforeHistory = UINT32_MAX;  // the event of what was there when the history begins
constexpr std::uint32_t kNotFreed = UINT32_MAX;

/// An allocation; of a device's events: which made and which freed it.
struct SnapshotTensor {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;  // as charged
  std::int64_t requested_bytes = 0;
  std::uint32_t made = kBeforeHistory, freed = kNotFreed;
  std::uint32_t stack = kNoStack;

  bool alive_after(std::uint32_t event) const {
    return (made == kBeforeHistory || made <= event) && (freed == kNotFreed || freed > event);
  }
};

struct SnapshotReading {
  std::int64_t allocated_bytes = 0, requested_bytes = 0, reserved_bytes = 0;
};

/// Where PyTorch raised torch.OutOfMemoryError.
struct SnapshotOutOfMemory {
  std::uint32_t event = 0;
  std::int64_t asked_bytes = 0;
  std::int64_t free_bytes = 0;  // of the device, outside of what was reserved
  SnapshotReading at;
  std::optional<std::int64_t> largest_free_bytes;  // of reserved blocks, where the history is whole
};

struct SnapshotHistory {
  std::vector<SnapshotTensor> tensors;        // in the order in which they were made
  SnapshotReading before, peak, end;          // peak: each figure by itself
  std::uint32_t peak_event = kBeforeHistory;  // of allocated bytes, for the first time
  std::int64_t reserved_at_peak = 0;
  std::vector<SnapshotOutOfMemory> out_of_memory;
  // Nothing was there before the first event. Otherwise the ring has dropped the beginning, or recording began late,
  // and a block is taken to be charged its size rounded up to 512 bytes.
  bool whole = false;
  // What is left at the end is what the segments say; in a whole history this proves every size, in another one only
  // that no less than nothing was there before.
  bool adds_up = false;
};

SnapshotHistory follow(const Snapshot& snapshot, std::size_t device);

/// Why its figures may be off, a sentence without an end; empty: they are PyTorch's.
std::string doubt_about(const SnapshotHistory& history);
/// Whether the process had anything on a device; that a snapshot was taken is an event of all of them.
bool was_used(const Snapshot& snapshot, std::size_t device);
/// Whether blocks lie in pools of their own, as those of CUDA graphs do.
bool has_private_pools(const Snapshot& snapshot, std::size_t device);

}  // namespace gpuplan
